"""The table of known runtimes, and those that are installed."""

import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.display import did_you_mean
from keras_pe.export.processes.foreign_code import foreign_code
from keras_pe.export.runtimes.runtime import RuntimeSpec

# Under which another package registers a `RuntimeSpec`, several, or what returns one of a name that it knows.
ENTRY_POINTS = "keras_pe.runtimes"

_HOME = "keras_pe.export.runtimes"
# Places outside this Python, registered as another package would.
_ELSEWHERE = (
    EntryPoint("in_javascript", f"{_HOME}.external.specs:IN_JAVASCRIPT", ENTRY_POINTS),
    EntryPoint("in_other_installation", f"{_HOME}.external.specs:in_other_installation", ENTRY_POINTS),
    EntryPoint("served", f"{_HOME}.model_server:at_address", ENTRY_POINTS),
)
_LEVELS = ("disabled", "basic", "extended", "layout", "all")


def _own(name: str, format: str, factory: str, package: str, *, extra: str = "export", **others: Any) -> RuntimeSpec:
    """Returns a runtime of this package, which one of its extras installs."""
    return RuntimeSpec(name, format, f"{_HOME}.{factory}", package, f"pip install 'keras-pe[{extra}]'", **others)


_onnxruntime = functools.partial(_own, format="onnx", factory="onnxruntime:OnnxRuntime", package="onnxruntime")
_litert = functools.partial(
    _own, format="litert", factory="litert:LiteRTRuntime", package="ai_edge_litert", extra="litert"
)
_keras = functools.partial(
    _own, format="keras", factory="keras:KerasRuntime", package="tensorflow", backend="tensorflow"
)

_FIXED = (
    *(_onnxruntime(f"onnxruntime[{level}]", options={"level": level}) for level in _LEVELS),
    _keras("keras[graph]"),
    # XLA compiles each shape anew, which takes longer than everything else together.
    _keras("keras[xla]", options={"jit_compile": True}, by_default=False),
    _own("keras[jit]", "keras", "keras:JittedKeras", "jax", extra="jax", backend="jax"),
    _own("tensorflow", "tf_saved_model", "tensorflow:TensorFlowRuntime", "tensorflow"),
    # This runtime is a second opinion, not a deployment. A recurrent layer takes a hundred times as long, and onnx 1.23
    # drops an axis of a GRU's last state.
    _own("onnx_reference", "onnx", "onnx_reference:OnnxReferenceRuntime", "onnx", by_default=False),
    # Few deploy to this runtime, so its faults should not fail the checks of all who have it installed.
    _own("openvino", "onnx", "openvino:OpenVINORuntime", "openvino", extra="openvino", by_default=False),
    _litert("litert"),
    # LiteRT's own kernels are a second opinion: a few devices run without XNNPACK.
    _litert("litert[builtin]", options={"xnnpack": False}, by_default=False),
    RuntimeSpec(
        "tflite_micro",
        "litert",
        f"{_HOME}.tflite_micro:TFLiteMicroRuntime",
        "tflite_micro",
        "pip install --pre tflite-micro",
        by_default=False,
    ),
)


@functools.cache
def known_runtimes() -> tuple[RuntimeSpec, ...]:
    """Returns every runtime, installed or not: ONNX Runtime once for each optimization level and execution provider."""
    return _FIXED + _providers() + tuple(each for each in _load_entry_points() if isinstance(each, RuntimeSpec))


def default_runtimes() -> tuple[RuntimeSpec, ...]:
    """Returns the runtimes of a check that names none, installed or not: on Keras' own backend."""
    return tuple(spec for spec in known_runtimes() if spec.by_default and spec.suits_backend)


def find_runtimes(names: str | RuntimeSpec | Sequence[str | RuntimeSpec] | None) -> tuple[RuntimeSpec, ...]:
    """Returns the runtimes of these names, one or several, or of a check that names none.

    A name without brackets stands for the runtime of that name, or else for all its variants. "keras" stands for the
    variants on the current backend, if any exist. A runtime that is named twice is returned once.

    Raises:
        TypeError: If they are of other types.
        ValueError: If a name is unknown, or two runtimes of one name differ.
        ImportError: If a runtime is not installed.
    """
    if names is None:
        return default_runtimes()
    given = [*names] if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    if not all(isinstance(each, str | RuntimeSpec) for each in given):
        raise ArgTypeError("runtimes", f"must be names or specs of runtimes. Received: runtimes={names!r}.")
    found: dict[str, RuntimeSpec] = {}
    for name in given:
        chosen = [name] if isinstance(name, RuntimeSpec) else named_runtimes(name)
        for spec in chosen:
            if (missing := spec.missing) is not None:
                raise ImportError(f"Runtime {spec.name!r} needs {missing}")
        for spec in chosen:
            if found.setdefault(spec.name, spec) != spec:
                raise ArgValueError(
                    "runtimes", f"must have names of their own. Received: {spec.name!r} for two runtimes."
                )
    return tuple(found.values())


def runtimes_for(
    artifacts: Sequence[tuple[str, Path]], names: str | RuntimeSpec | Sequence[str | RuntimeSpec] | None
) -> tuple[RuntimeSpec, ...]:
    """Returns the runtimes of a check of some artifacts: beside servers alone, the default ones that take a file.

    Args:
        artifacts: The format and the path of each.
        names: As in `find_runtimes`.

    Raises:
        TypeError, ImportError: As `find_runtimes`.
        ValueError: If a name is unknown, or none of the runtimes takes one of the artifacts.
    """
    chosen = find_runtimes(names)
    formats = {format for format, _ in artifacts}
    if names is None or not artifacts or formats & {spec.format for spec in chosen}:
        return chosen
    taking = [spec for spec in default_runtimes() if spec.format in formats]
    if chosen and all(spec.format == "served" for spec in chosen):
        return (*chosen, *taking)
    known = dict.fromkeys(spec.family for spec in known_runtimes() if spec.format in formats)
    raise ArgValueError(
        "runtimes",
        f"must take one of `artifacts`. Received: {', '.join(spec.name for spec in chosen)} for "
        f"{', '.join(str(path) for _, path in artifacts)}. Choose one of: {', '.join(known)}.",
    )


def named_runtimes(name: str) -> list[RuntimeSpec]:
    """Returns the runtimes of a name, installed or not.

    Raises:
        ValueError: If it is unknown.
    """
    chosen = [spec for spec in _FIXED if name == spec.name]  # without the import of ONNX Runtime and of entry points
    known = () if chosen else known_runtimes()
    chosen = chosen or [spec for spec in known if name == spec.name] or [spec for spec in known if name == spec.family]
    if not chosen:
        finders = [each for each in _load_entry_points() if not isinstance(each, RuntimeSpec)]
        chosen = [spec for find in finders if (spec := find(name)) is not None]
    if not chosen:
        names = sorted({spec.name for spec in known_runtimes()} | {spec.family for spec in known_runtimes()})
        hint = did_you_mean(name, names, cutoff=0.7)  # 'tensorrt' is not a slip for 'tensorflow'
        raise ArgValueError("runtimes", f"must be known. Received: {name!r}. Choose one of: {', '.join(names)}.{hint}")
    return [spec for spec in chosen if spec.suits_backend] or chosen


def _load_entry_points() -> tuple[RuntimeSpec | Callable[[str], RuntimeSpec | None], ...]:
    return tuple(_load(*_ELSEWHERE, *importlib.metadata.entry_points(group=ENTRY_POINTS)))


def _load(*entries: EntryPoint) -> Iterator[RuntimeSpec | Callable[[str], RuntimeSpec | None]]:
    """Yields what is registered; what cannot be used stands there with the reason."""
    for entry in entries:
        package = entry.dist.name if entry.dist else entry.module
        try:
            with foreign_code():
                found: Any = entry.load()
        except Exception as error:  # whatever another package raises when it is imported
            yield _unusable(entry.name, package, f"which does not load: {type(error).__name__}: {error}")
            continue
        several = found if isinstance(found, tuple | list) else [found]
        if callable(found) or all(isinstance(each, RuntimeSpec) for each in several):
            yield from several
        else:
            yield _unusable(entry.name, package, f"whose entry point must be a RuntimeSpec. Received: {found!r}")


def _unusable(name: str, package: str, reason: str) -> RuntimeSpec:
    missing = f"the package {package!r}, {reason}"
    return RuntimeSpec(
        name, "onnx", "", package, f"pip install {package}", by_default=False, find_missing=lambda: missing
    )


def _providers() -> tuple[RuntimeSpec, ...]:
    """Returns ONNX Runtime once for each execution provider that is compiled in, the CPU's aside.

    Whether there is a device for it shows when it starts, so a check runs it only when it is named.
    """
    try:
        import onnxruntime
    except ImportError:
        return ()
    # The Azure provider is part of every build, runs no operator here and needs a remote endpoint.
    aside = {"CPUExecutionProvider", "AzureExecutionProvider"}
    return tuple(
        _onnxruntime(
            f"onnxruntime[{name.removesuffix('ExecutionProvider')}]", options={"provider": name}, by_default=False
        )
        for name in onnxruntime.get_available_providers()
        if name not in aside
    )
