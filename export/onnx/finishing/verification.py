"""What an ONNX model must survive before it is published: the checker, strict shape inference, a run beside Keras."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.onnx_model import read_without_weights
from keras_pe.export.comparison.optimization_search import guilty_optimizations
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import DisagreementError, ExportError, InvalidArtifactError, UnsupportedError, first_line
from keras_pe.export.graph.tracing import Weight
from keras_pe.export.results import Cause
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runner import Worker
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.smoke_test import TIMEOUT, Checked, check_artifact

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
