"""The runtimes that are known, and which of them are here."""

import difflib
import functools
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from typing import Any

from keras_pe.export.runtimes.runtime import RuntimeSpec

# Under which another package registers a `RuntimeSpec`, several, or what returns one of a name that it knows.
ENTRY_POINTS = "keras_pe.runtimes"

_HOME = "keras_pe.export.runtimes"
# Places outside this Python, registered as another package would.
_ELSEWHERE = (
    EntryPoint("in_javascript", f"{_HOME}.external.specs:IN_JAVASCRIPT", ENTRY_POINTS),
    EntryPoint("in_other_installation", f"{_HOME}.external.specs:in_other_installation", ENTRY_POINTS),
    EntryPoint("served", f"{_HOME}.served.addresses:at_address", ENTRY_POINTS),
)
_EXPORT = "pip install 'keras-pe[export]'"

_LEVELS = ("disabled", "basic", "extended", "layout", "all")

_ON_TENSORFLOW = functools.partial(
    RuntimeSpec,
    format="keras",
    factory=f"{_HOME}.keras:KerasRuntime",
    package="tensorflow",
    install=_EXPORT,
    backend="tensorflow",
)

_FIXED = (
    _ON_TENSORFLOW("keras[graph]"),
    # XLA compiles each shape anew, which takes longer than everything else together.
    _ON_TENSORFLOW("keras[xla]", options={"jit_compile": True}, by_default=False),
    RuntimeSpec(
        "keras[jit]", "keras", f"{_HOME}.keras_jit:JittedKeras", "jax", "pip install 'keras-pe[jax]'", backend="jax"
    ),
    RuntimeSpec("tensorflow", "tf_saved_model", f"{_HOME}.tensorflow:TensorFlowRuntime", "tensorflow", _EXPORT),
    # A second opinion, not a place where models run: a recurrent layer takes it a hundred times as long, and onnx 1.23
    # drops an axis of a GRU's last state.
    RuntimeSpec(
        "onnx_reference", "onnx", f"{_HOME}.onnx_reference:OnnxReferenceRuntime", "onnx", _EXPORT, by_default=False
    ),
    # A runtime that few ship to: its faults should not fail the check of those who only have it installed.
    RuntimeSpec(
        "openvino",
        "onnx",
        f"{_HOME}.openvino:OpenVINORuntime",
        "openvino",
        "pip install 'keras-pe[openvino]'",
        by_default=False,
    ),
    RuntimeSpec(
        "litert", "litert", f"{_HOME}.litert:LiteRTRuntime", "ai_edge_litert", "pip install 'keras-pe[litert]'"
    ),
)


@functools.cache
def known_runtimes() -> tuple[RuntimeSpec, ...]:
    """Returns every runtime, installed or not: ONNX Runtime once for each optimization level and execution provider."""
    return _levels() + _providers() + _FIXED + tuple(each for each in _registered() if isinstance(each, RuntimeSpec))


def default_runtimes() -> tuple[RuntimeSpec, ...]:
    """Returns the runtimes of a check that names none, installed or not: on Keras' own backend."""
    return tuple(spec for spec in known_runtimes() if spec.by_default and spec.suits_backend)


def find_runtimes(names: str | RuntimeSpec | Sequence[str | RuntimeSpec] | None) -> tuple[RuntimeSpec, ...]:
    """Returns the runtimes of these names, one or several, or of a check that names none.

    A name without brackets stands for all its variants; of those of Keras itself, for the ones on the backend that it
    has, if there are any.

    Raises:
        ValueError: If a name is unknown.
        ImportError: If a runtime is not installed.
    """
    if names is None:
        return default_runtimes()
    found: list[RuntimeSpec] = []
    for name in [names] if isinstance(names, str | RuntimeSpec) else names:
        chosen = [name] if isinstance(name, RuntimeSpec) else named_runtimes(name)
        for spec in chosen:
            if (missing := spec.missing) is not None:
                raise ImportError(f"Runtime {spec.name!r} needs {missing}")
        found += chosen
    return tuple(found)


def named_runtimes(name: str) -> list[RuntimeSpec]:
    """Returns the runtimes of a name, installed or not.

    Raises:
        ValueError: If it is unknown.
    """
    chosen = [spec for spec in known_runtimes() if name in (spec.name, spec.family)]
    if not chosen:
        finders = [each for each in _registered() if not isinstance(each, RuntimeSpec)]
        chosen = [spec for find in finders if (spec := find(name)) is not None]
    if not chosen:
        names = sorted({spec.name for spec in known_runtimes()} | {spec.family for spec in known_runtimes()})
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)  # 'tensorrt' is no slip for 'tensorflow'
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"Unknown runtime {name!r}. Choose one of: {', '.join(names)}.{hint}")
    return [spec for spec in chosen if spec.suits_backend] or chosen


def _registered() -> tuple[RuntimeSpec | Callable[[str], RuntimeSpec | None], ...]:
    return tuple(_load(*_ELSEWHERE, *importlib.metadata.entry_points(group=ENTRY_POINTS)))


def _load(*entries: EntryPoint) -> Iterator[RuntimeSpec | Callable[[str], RuntimeSpec | None]]:
    """Yields what is registered; what cannot be used stands there with the reason."""
    for entry in entries:
        package = entry.dist.name if entry.dist else entry.module
        try:
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


def _levels() -> tuple[RuntimeSpec, ...]:
    """Returns ONNX Runtime once for each level of graph optimization."""
    factory = f"{_HOME}.onnxruntime:OnnxRuntime"
    return tuple(
        RuntimeSpec(f"onnxruntime[{level}]", "onnx", factory, "onnxruntime", _EXPORT, {"level": level})
        for level in _LEVELS
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
        RuntimeSpec(
            f"onnxruntime[{name.removesuffix('ExecutionProvider')}]",
            "onnx",
            f"{_HOME}.onnxruntime:OnnxRuntime",
            "onnxruntime",
            _EXPORT,
            {"provider": name},
            by_default=False,
        )
        for name in onnxruntime.get_available_providers()
        if name not in aside
    )
