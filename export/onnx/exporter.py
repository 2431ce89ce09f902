"""The format ONNX: a file that passes ONNX's checker, strict shape inference and a comparison with Keras."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.onnx_model import read_without_weights
from keras_pe.export.comparison.optimization_search import guilty_optimizations
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.errors import (
    DisagreementError,
    ExportError,
    InvalidArtifactError,
    UnsupportedError,
    first_line,
)
from keras_pe.export.graph.graph_queries import refuse_state_and_randomness
from keras_pe.export.graph.trace import untraceable
from keras_pe.export.graph.trace_function import Trace, Weight, trace
from keras_pe.export.graph.unfused import Unfused
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.onnx.conversion import convert
from keras_pe.export.onnx.file_writer import write_model
from keras_pe.export.onnx.keras_operations import named_operations
from keras_pe.export.onnx.recurrences import traced_as_calls
from keras_pe.export.pipeline.smoke_test import Checked, check_artifact
from keras_pe.export.pipeline.target_format import Converted, TargetFormat, Traced
from keras_pe.export.results import Cause
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runtime import RuntimeSpec
from keras_pe.export.runtimes.shared_workers import onnxruntime_process
from keras_pe.export.runtimes.worker import Worker

SELF_CONTAINED = 2**31 - 2**26  # bytes of weights: protobuf allows 2 GiB for the weights and the graph
_RUN_SECONDS = 600.0  # the limit of one run on small arrays


def onnx_format(opset: int, threshold: int, half_precision: bool) -> TargetFormat:
    """Returns ONNX as a format of exports.

    Args:
        opset: The operator set.
        threshold: The bytes of weights above which the weights go to a second file.
        half_precision: Whether the file computes in float16.
    """
    packages = ("keras", "tensorflow", "tf2onnx", "onnx")
    extras = dict.fromkeys((*packages, "onnx_ir", "onnxruntime"), "export")
    precision = "float16" if half_precision else "float32"
    traced = partial(trace_model, opset, threshold)
    return TargetFormat("export_onnx", Format.ONNX, extras, packages, onnxruntime_process, traced, precision)


def trace_model(opset: int, threshold: int, layers: Sequence[Any], signature: Signature) -> Traced:
    """Traces a model. Operations that are one ONNX operator are traced as one call.

    Args:
        opset: The operator set.
        threshold: The bytes of weights above which the weights go to a second file.
        layers: The model, then every layer in it.
        signature: The model's signature.

    Raises:
        TracingError: If Keras cannot trace the model.
        UnsupportedError: If the model has state or randomness.
    """
    name, unfused = layers[0].name, Unfused()
    try:
        with traced_as_calls(layers, unfused), named_operations(layers, opset, unfused):
            found = trace(layers, signature)
    except Exception as error:  # a layer may raise any error if a size is unknown
        raise untraceable(Format.ONNX, name, error) from error
    refuse_state_and_randomness(found.view, found.signature, found.outputs, name, Format.ONNX, found.updated)
    converted = partial(_convert, found, unfused, opset, threshold, layers[0])
    return Traced(found.signature, found.view, converted, partial(check_file, layers))


def _convert(
    found: Trace, unfused: Unfused, opset: int, threshold: int, model: Any, file: Path, process: Worker
) -> Converted:
    from keras_pe.export.onnx.finishing.assembly import assemble

    proto, weights, rewrites = assemble(convert(found, opset, model), found, unfused)
    return Converted(partial(_write, proto, weights, threshold), rewrites=tuple(dict.fromkeys(rewrites)))


def _write(proto: Any, weights: Sequence[Weight], threshold: int, file: Path, artifact: Artifact) -> list[Path]:
    from keras_pe.export.onnx.finishing.assembly import declare_outputs, set_metadata

    set_metadata(proto, artifact.metadata)
    declare_outputs(proto, artifact.outputs)
    is_external = sum(weight.nbytes for weight in weights) > threshold
    return write_model(proto, weights, file, is_external)[:-1]


# ONNX Runtime's message for an operator without a kernel for its element type.
_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(\d+\) node with name '([^']*)'")


def check_graph(path: Path, name: str) -> None:
    """Runs ONNX's checker and strict shape inference on a file with external weights.

    Raises:
        InvalidArtifactError: If the checker or the inference fails.
    """
    import onnx

    try:
        onnx.checker.check_model(path, full_check=True)
        model = onnx.load(path, load_external_data=False)
        _declare_weights_as_inputs(model.graph)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise InvalidArtifactError(Format.ONNX, name, f"the graph is not valid ONNX: {first_line(error)}.") from error


def _declare_weights_as_inputs(graph: Any) -> None:
    """Declares external weights as inputs, since the propagation of data fails on a tensor without its data."""
    from onnx import TensorProto, helper

    stored = list[Any]()
    for tensor in graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        else:
            stored.append(tensor)
    del graph.initializer[:]
    graph.initializer.extend(stored)


def _missing_kernel_error(operator: str, node: str, layers: Sequence[Any]) -> UnsupportedError:
    """Returns the error for a valid file with an operator that ONNX Runtime has no kernel for."""
    dtypes = sorted({str(layer.compute_dtype) for layer in layers if layer.compute_dtype} - {"float32"})
    reason = f"ONNX Runtime has no kernel of operator {operator!r} for the number type of node {node!r}."
    if dtypes:
        reason += (
            f" The model computes in {' and '.join(dtypes)}: build it under the policy 'float32', load the weights, "
            "and export that."
        )
    return UnsupportedError(Format.ONNX, layers[0].name, reason, operator=operator)


def memory_mapped_session() -> RuntimeSpec:
    """Returns a runtime without the optimizations that copy weights. The runtime maps the weights from the file."""
    (spec,) = find_runtimes(["onnxruntime[all]"])
    options = {
        "disabled_optimizers": ["ConstantFolding"],  # folding copies each weight that it reshapes or transposes
        "config": {
            "session.disable_prepacking": "1",  # prepacking copies the weights for speed
            "session.strict_shape_type_inference": "1",  # a wrong declared size is an error instead of a warning
        },
    }
    return replace(spec, options={**spec.options, **options})


def check_file(layers: Sequence[Any], file: Path, runner: Worker, reference: KerasReference) -> Checked:
    """Checks a file with ONNX's checker and strict shape inference, and compares its run in ONNX Runtime with Keras.

    All checks read a copy of the graph that refers to the weights within the file.

    Raises:
        ExportError: If the file is not valid, does not open or run, or its inputs or outputs differ from the model's.
    """
    mapped = file.with_name(f"{file.name}.mapped")
    mapped.write_bytes(read_without_weights(file).SerializeToString())  # parsing weights doubles the memory
    check_graph(mapped, layers[0].name)
    try:
        return check_artifact(mapped, runner, reference, Format.ONNX, spec=memory_mapped_session())
    except (DisagreementError, InvalidArtifactError) as error:
        missing = _NO_KERNEL.search(error.reason)
        if missing:
            raise _missing_kernel_error(missing[1], missing[2], layers) from error
        found = _optimization_at_fault(mapped, reference)
        if found is None:
            raise
        cause = {"cause": Cause.GRAPH_OPTIMIZATION} if isinstance(error, DisagreementError) else {}
        raise error.with_evidence(found, **cause) from error


def _optimization_at_fault(file: Path, reference: KerasReference) -> str | None:
    """Returns a sentence on the optimization without which a file matches Keras; None if there is no such one."""
    version: list[str] = []

    def agrees(worker: Worker) -> bool:
        try:
            check_artifact(file, worker, reference, Format.ONNX)
        except ExportError:
            return False
        version.append(worker.version)
        return True

    names = guilty_optimizations(file, memory_mapped_session(), agrees, _RUN_SECONDS)
    if names is None:
        return None
    return (
        f"The file is sound, and an optimization of {version[0]} is at fault: without {names} it returns what Keras "
        "returns. Export once more with another version of ONNX Runtime."
    )
