"""`export_onnx`: from a Keras model to one ONNX file that ONNX Runtime has run beside Keras.

Before it is published a file must survive ONNX's checker, strict shape inference, and a run beside Keras.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.onnx_model import read_without_weights
from keras_pe.export.comparison.inputs.cases import GivenInputs
from keras_pe.export.comparison.optimization_search import guilty_optimizations
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import (
    DisagreementError,
    ExportError,
    InvalidArtifactError,
    UnsupportedError,
    check_type,
    check_whole,
    first_line,
)
from keras_pe.export.exporting import TargetFormat, TracedModel, export
from keras_pe.export.graph.tracer import untraceable
from keras_pe.export.graph.tracing import Weight, trace
from keras_pe.export.graph.view import refuse_state_and_randomness
from keras_pe.export.model.border import Border
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.onnx.conversion import convert
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.named_operations import named_operations
from keras_pe.export.onnx.operator_calls import Unfused
from keras_pe.export.onnx.recurrences import traced_as_calls
from keras_pe.export.onnx.writing import write_model
from keras_pe.export.request import Request
from keras_pe.export.results import Cause
from keras_pe.export.runtimes.lending import onnxruntime_process
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.smoke_test import TIMEOUT, Checked, check_artifact
from keras_pe.protocols import Model

SELF_CONTAINED = 2**31 - 2**26  # bytes of weights: protobuf ends at 2 GiB, and the graph needs room as well


def export_onnx(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    opset_version: int = opsets.DEFAULT,
    external_data_threshold: int = SELF_CONTAINED,
    half_precision: bool = False,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to ONNX.

    The file is published only after ONNX's checker and strict shape inference have passed and ONNX Runtime has returned
    from it what Keras returns, at sizes that were not traced. Until then, and if anything fails, what stood at
    `filepath` stays.

    Args:
        model: A built `keras.Model`, or the path of a `.keras` or `.h5` file of one. On another backend than TensorFlow
            it is saved, and exported by a process of its own; its layers must be ones that another process can import.
        filepath: The `.onnx` file to write. Any name will do but that of another format's file.
        input_signature: See `model_signature`; needed for most subclassed models. A size that is free in it stays free.
            Without it, a size is fixed if Keras cannot trace the model with that size free; a note says so.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        inputs: Examples of what the model takes, where it does not take any values: a mapping of names to arrays, or an
            `.npz` file, one or several. The artifact is compared on these, and tells them to `check_parity`.
        ranges: The fair values of an input: the least, and the first above that is not fair. The artifact tells them to
            `check_parity`.
        border: What the artifact takes and returns where that is not what the model does: another layout or type, a
            preparation of inputs, some of the outputs or decisions on them. `sizes`, `inputs` and `ranges` are then the
            artifact's. The artifact records the border, and a check reads it there.
        opset_version: The ONNX operator set, 15 to 25.
        external_data_threshold: Bytes of weights above which they are written to a file beside the model, named
            `<file>.<hash of its content>.data`. Below, the one file holds everything.
        half_precision: Export in float16, a model in bfloat16 too, whose range is wider. Otherwise a model in float16
            or bfloat16 is exported as a float32 rebuild with the same weights. A note of the artifact says so.
        progress: Called with the name of each stage when it starts; True shows a bar.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound ONNX form; its class tells why, its attributes name the layer and the
            operator.
        ValueError: If an argument is wrong, or the signature is not known.
        TypeError: If an argument is of another type.
        FileExistsError: If something that is not an ONNX file stands at `filepath`.
        ImportError: If a package is missing.
    """
    check_whole("opset_version", opset_version, opsets.EXPORTED[0], opsets.EXPORTED[-1])
    check_whole("external_data_threshold", external_data_threshold, 0)
    check_type("half_precision", half_precision, bool)
    request = Request(model, filepath, input_signature, sizes, inputs, ranges, border, progress)
    packages = ("keras", "tensorflow", "tf2onnx", "onnx")
    extras = dict.fromkeys((*packages, "onnx_ir", "onnxruntime"), "export")
    trace_model = partial(_Traced, opset_version, external_data_threshold)
    precision = "float16" if half_precision else "float32"
    target = TargetFormat("export_onnx", Format.ONNX, extras, packages, onnxruntime_process, trace_model, precision)
    return export(target, request)


class _Traced(TracedModel):
    """A model on its way to the file."""

    def __init__(self, opset: int, threshold: int, layers: Sequence[Any], signature: Signature) -> None:
        self._opset, self._threshold, self._layers, self._unfused = opset, threshold, layers, Unfused()
        name = layers[0].name
        try:
            with traced_as_calls(layers, self._unfused), named_operations(layers, opset, self._unfused):
                traced = trace(layers, signature)
        except Exception as error:  # a layer may raise anything where a size is not known
            raise untraceable(Format.ONNX, name, error) from error
        refuse_state_and_randomness(traced.view, traced.signature, traced.outputs, name, Format.ONNX, traced.updated)
        super().__init__(traced.signature, traced.view)
        self._trace, self._weights = traced, list[Weight]()
        self._proto: Any = None

    def convert(self, file: Path, process: Worker) -> None:
        from keras_pe.export.onnx.finishing.assembly import assemble

        proto = convert(self._trace, self._opset, self._layers[0])
        self._proto, self._weights = assemble(proto, self._trace, self._unfused)

    def write(self, file: Path, artifact: Artifact) -> list[Path]:
        from keras_pe.export.onnx.finishing.assembly import declare_outputs, set_metadata

        set_metadata(self._proto, artifact.metadata)
        declare_outputs(self._proto, artifact.outputs)
        check_graph(self._proto, self._weights, self._layers[0].name)
        is_external = sum(weight.nbytes for weight in self._weights) > self._threshold
        return write_model(self._proto, self._weights, file, is_external)[:-1]

    def check(self, file: Path, process: Worker, reference: KerasReference) -> Checked:
        return check_file(file, process, self._layers, reference)


# How ONNX Runtime says that it has no code for an operator in the element type it is asked in.
_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(\d+\) node with name '([^']*)'")


def check_graph(model: Any, weights: Sequence[Weight], name: str) -> None:
    """Runs the checker and strict shape inference with the weights as inputs, which costs no copy of them.

    Raises:
        InvalidArtifactError: If one of them objects.
    """
    import onnx
    from onnx import helper

    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    complete.graph.input.extend(
        helper.make_tensor_value_info(weight.name, helper.np_dtype_to_tensor_dtype(weight.dtype), weight.shape)
        for weight in weights
    )
    try:
        onnx.checker.check_model(complete, full_check=True)
        onnx.shape_inference.infer_shapes(complete, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise InvalidArtifactError(Format.ONNX, name, f"the graph is not valid ONNX: {first_line(error)}.") from error


def _without_kernel(operator: str, node: str, layers: Sequence[Any]) -> UnsupportedError:
    """Returns the error of a file that is valid ONNX, and that ONNX Runtime has no code for."""
    dtypes = sorted({str(layer.compute_dtype) for layer in layers if layer.compute_dtype} - {"float32"})
    reason = f"ONNX Runtime has no kernel of operator {operator!r} for the number type of node {node!r}."
    if dtypes:
        reason += (
            f" The model computes in {' and '.join(dtypes)}: build it under the policy 'float32', load the weights, "
            "and export that."
        )
    return UnsupportedError(Format.ONNX, layers[0].name, reason, operator=operator)


def mapped_session() -> RuntimeSpec:
    """Returns ONNX Runtime without what copies weights: they stay in the file that it maps."""
    (spec,) = find_runtimes(["onnxruntime[all]"])
    options = {
        "disabled_optimizers": ["ConstantFolding"],  # copies each weight whose shape or order it changes
        "config": {
            "session.disable_prepacking": "1",  # a copy of the weights for speed
            "session.strict_shape_type_inference": "1",  # a declared size that is not so is an error, and no warning
        },
    }
    return replace(spec, options={**spec.options, **options})


def check_file(file: Path, runner: Worker, layers: Sequence[Any], reference: KerasReference) -> Checked:
    """Opens the file in ONNX Runtime and runs it beside the model: a graph can be valid and return something else.

    Raises:
        ExportError: If it does not open or run, or takes or returns anything else than the model.
    """
    mapped = file.with_name(f"{file.name}.mapped")
    mapped.write_bytes(read_without_weights(file).SerializeToString())  # parsing them would hold a large model twice
    try:
        return check_artifact(mapped, runner, reference, Format.ONNX, spec=mapped_session())
    except (DisagreementError, InvalidArtifactError) as error:
        missing = _NO_KERNEL.search(error.reason)
        if missing:
            raise _without_kernel(missing[1], missing[2], layers) from error
        found = _optimization_at_fault(mapped, reference)
        if found is None:
            raise
        raise _with_optimization(error, found) from error


def _with_optimization(error: DisagreementError | InvalidArtifactError, found: str) -> ExportError:
    reason = f"{error.reason} {found}"
    if isinstance(error, InvalidArtifactError):
        return InvalidArtifactError(error.format, error.model, reason)
    cause = Cause.GRAPH_OPTIMIZATION
    return DisagreementError(error.format, error.model, reason, case=error.case, inputs=error.inputs, cause=cause)


def _optimization_at_fault(file: Path, reference: KerasReference) -> str | None:
    """Returns a sentence on the optimization without which a file returns what Keras does; None if it does not."""
    version: list[str] = []

    def agrees(worker: Worker) -> bool:
        try:
            check_artifact(file, worker, reference, Format.ONNX)
        except ExportError:
            return False
        version.append(worker.version)
        return True

    names = guilty_optimizations(file, mapped_session(), agrees, TIMEOUT)
    if names is None:
        return None
    return (
        f"The file is sound, and an optimization of {version[0]} is at fault: without {names} it returns what Keras "
        "returns. Export once more with another version of ONNX Runtime."
    )
