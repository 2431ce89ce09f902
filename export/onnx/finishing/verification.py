"""What an ONNX model must survive before it is published: the checker, strict shape inference, a run beside Keras."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.errors import InvalidArtifactError
from keras_pe.export.formats import Format
from keras_pe.export.graph.tracing import Weight
from keras_pe.export.messages import first_line
from keras_pe.export.model.signature import Signature
from keras_pe.export.reading.onnx_file import read_without_weights
from keras_pe.export.runtimes.runtime import Arrays
from keras_pe.export.smoke_test import check_agreement


def check_graph(model: Any, weights: Sequence[Weight], name: str) -> None:
    """Runs the checker and strict shape inference with the weights as inputs, which costs no copy of them.

    Raises:
        InvalidArtifactError: If one of them objects.
    """
    import onnx
    from onnx import helper

    from keras_pe.export.onnx.writing import tensor_type

    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    complete.graph.input.extend(
        helper.make_tensor_value_info(weight.name, tensor_type(weight), [int(dim) for dim in weight.value.shape])
        for weight in weights
    )
    try:
        onnx.checker.check_model(complete, full_check=True)
        onnx.shape_inference.infer_shapes(complete, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise InvalidArtifactError(Format.ONNX, name, f"the graph is not valid ONNX: {first_line(error)}.") from error


def check_file(file: Path, signature: Signature, model: Any) -> None:
    """Opens the file in ONNX Runtime and runs it beside the model: a graph can be valid and return something else.

    Raises:
        ExportError: If it does not open or run, or takes or returns anything else than the model.
    """
    session = _open(file, signature, model.name)
    names = [spec.name for spec in signature.outputs]

    def run(inputs: Arrays) -> Arrays:
        try:
            return dict(zip(names, session.run(names, inputs), strict=True))
        except Exception as error:  # ONNX Runtime's errors have no base class of their own
            reason = f"ONNX Runtime opens the file and does not run it: {first_line(error)}."
            raise InvalidArtifactError(Format.ONNX, model.name, reason) from error

    check_agreement(run, model, signature, Format.ONNX)


def _open(file: Path, signature: Signature, name: str) -> Any:
    """Returns a session, its weights mapped from the file: parsing a large one would hold it twice meanwhile."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.disable_prepacking", "1")  # a copy of the weights for speed
    mapped = file.with_name(f"{file.name}.mapped")
    try:
        mapped.write_bytes(read_without_weights(file).SerializeToString())
        session = ort.InferenceSession(
            mapped,
            options,
            providers=["CPUExecutionProvider"],
            disabled_optimizers=["ConstantFolding"],  # copies each weight whose shape or order it changes
        )
    except Exception as error:  # as above
        raise InvalidArtifactError(
            Format.ONNX, name, f"ONNX Runtime does not open the file: {first_line(error)}."
        ) from error
    found = [[x.name for x in session.get_inputs()], [x.name for x in session.get_outputs()]]
    wanted = [[spec.name for spec in signature.inputs], [spec.name for spec in signature.outputs]]
    if found != wanted:
        raise InvalidArtifactError(
            Format.ONNX, name, f"the file has the inputs and outputs {found}, the model {wanted}."
        )
    return session
