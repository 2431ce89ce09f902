"""What an ONNX model must survive before it is published: the checker, strict shape inference, ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.errors import ExportError
from keras_pe.export.onnx.reading import read_without_weights
from keras_pe.export.onnx.refusals import first_line
from keras_pe.export.signature import Signature
from keras_pe.export.tracing import Weight


def check_graph(model: Any, weights: Sequence[Weight], name: str) -> None:
    """Runs the checker and strict shape inference with the weights as inputs, which costs no copy of them.

    Raises:
        ExportError: If one of them objects.
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
        raise ExportError("ONNX", name, f"the graph is not valid ONNX: {first_line(error)}.") from error


def open_session(file: Path, signature: Signature, name: str) -> None:
    """Opens the file in ONNX Runtime, runs it once, and compares what it takes and returns with the signature.

    The weights are mapped from the file, not parsed: ONNX Runtime would hold a large file twice while it does.

    Raises:
        ExportError: If it does not open or run, or takes or returns anything else.
    """
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
    except Exception as error:  # ONNX Runtime's errors have no base class of their own
        raise ExportError("ONNX", name, f"ONNX Runtime does not open the file: {first_line(error)}.") from error
    found = [[x.name for x in session.get_inputs()], [x.name for x in session.get_outputs()]]
    wanted = [[spec.name for spec in signature.inputs], [spec.name for spec in signature.outputs]]
    if found != wanted:
        raise ExportError("ONNX", name, f"the file has the inputs and outputs {found}, the model {wanted}.")
    _run(session, signature, name)


def _run(session: Any, signature: Signature, name: str) -> None:
    """Runs the session on zeros of sizes that the model takes: a graph can open and still not run."""
    import keras

    feed = {each: keras.ops.convert_to_numpy(array) for each, array in signature.example().items()}
    try:
        results = session.run(None, feed)
    except Exception as error:  # as above
        raise ExportError(
            "ONNX", name, f"ONNX Runtime opens the file and does not run it: {first_line(error)}."
        ) from error
    for spec, result in zip(signature.outputs, results, strict=True):
        expected = [signature.sizes.get(str(dim), dim) for dim in spec.shape]
        # A dimension that follows no input has a name without a size: any will do.
        if any(isinstance(dim, int) and dim != size for dim, size in zip(expected, result.shape, strict=True)):
            raise ExportError(
                "ONNX", name, f"output {spec.name!r} has the shape {result.shape} in ONNX Runtime, in Keras {expected}."
            )
