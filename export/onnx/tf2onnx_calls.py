"""The only calls of tf2onnx 1.17, which is patched during a conversion, and the errors for its missing operators.

The patch for NumPy 2, which Keras' own export applies too, stays after the conversion.
"""

import contextlib
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.errors import UnsupportedError, describe, first_line, join_sentences
from keras_pe.export.graph.trace_function import Trace
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.onnx.tf2onnx_repairs import Handlers, repaired

OF_COMPLEX, OF_TEXTS = " of complex numbers", " of texts"
"""The suffixes of the types of operators on complex numbers, and of operators that compare texts."""

_LOCK = threading.RLock()


@dataclass(frozen=True)
class Failure:
    """An operator that was not converted.

    Attributes:
        node: The name of the operator in the graph; empty if the failure has no known operator.
        op_type: The type of the operator.
        reason: The message of tf2onnx; empty without a message.
        is_mistake: Whether tf2onnx raised an unexpected Python error instead of refusing the operator.
    """

    node: str
    op_type: str
    reason: str
    is_mistake: bool = False


class FailedError(Exception):
    """Some operators were not converted. tf2onnx itself only logs them and writes an invalid graph."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__(failures)
        self.failures = tuple(failures)

    def __str__(self) -> str:
        return ", ".join(failure.op_type for failure in self.failures)


def convert_graph(
    definition: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    opset: int,
    names: Mapping[str, str],
    handlers: Handlers,
) -> Any:
    """Returns the `onnx.ModelProto` of a TensorFlow graph.

    Args:
        definition: The `GraphDef`.
        inputs: The names of the input tensors.
        outputs: The names of the output tensors.
        opset: The ONNX operator set.
        names: The new names of tensors in the result.
        handlers: The handlers that replace or extend tf2onnx's own.

    Raises:
        FailedError: If operators were not converted, or tf2onnx failed.
    """
    import tensorflow as tf
    from tf2onnx import tfonnx

    with _LOCK, repaired(handlers), _collect_failures() as failures:
        try:
            with tf.device("/cpu:0"), tf.Graph().as_default() as graph:
                tf.import_graph_def(definition, name="")
                converted = tfonnx.process_tf_graph(
                    graph,
                    continue_on_error=True,  # collect all failures, so that the error names each
                    opset=opset,
                    custom_rewriter=[_mark],
                    input_names=list(inputs),
                    output_names=list(outputs),
                    tensors_to_rename=dict(names),
                )
            if not failures:
                converted.reset_nodes(list(dict.fromkeys(converted.get_nodes())))  # a rewriter adds some twice
                converted.delete_unused_nodes(converted.outputs)
                converted.topological_sort(converted.get_nodes())
                return converted.make_model("")
        except Exception as error:
            raise FailedError(failures or [_find_failed_operator(error)]) from error
        raise FailedError(failures)


def repair_frozen(definition: Any) -> Any:
    """Repairs a `GraphDef` with frozen variables: TensorFlow leaves some reads of the variables in functions."""
    from tf2onnx.tf_loader import fix_freezing_errors_part2

    return fix_freezing_errors_part2(definition)


def _mark(graph: Any, nodes: list[Any]) -> list[Any]:
    """Adds a suffix to the types of operators on complex numbers and texts, since handlers are selected by type.

    A handler for real numbers would use the wrong axis of complex tensors. To compare texts, tf2onnx parses them as
    numbers. This function runs for each graph before the handlers.
    """
    from onnx import TensorProto

    for node in nodes:
        if not node.is_const():
            kinds = [graph.get_dtype(name) for name in (*node.input, *node.output)]
            if not {TensorProto.COMPLEX64, TensorProto.COMPLEX128}.isdisjoint(kinds):
                node.type += OF_COMPLEX
            elif node.type in ("Equal", "NotEqual") and kinds[0] == TensorProto.STRING:
                node.type += OF_TEXTS
    return nodes


def _find_failed_operator(error: BaseException) -> Failure:
    """Returns the operator that tf2onnx was converting when it raised an error, or a failure without a known operator.

    The operator is the first TensorFlow operation or tf2onnx node in the frames of the traceback, innermost first. A
    node that tf2onnx has added has no path, so its nearest input with a path counts instead.
    """
    import tensorflow as tf
    from tf2onnx.graph import Node

    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    waiting = deque(value for frame in reversed(frames) for value in frame.f_locals.values())
    seen = set[str]()
    while waiting:
        value = waiting.popleft()
        if isinstance(value, tf.Operation | Node) and value.name not in seen:
            if "/" in value.name:
                return Failure(value.name, value.type, describe(error), is_mistake=True)
            seen.add(value.name)
            waiting.extendleft(reversed(getattr(value, "inputs", ())))
    return Failure("", "", describe(error), is_mistake=True)


@contextlib.contextmanager
def _collect_failures() -> Iterator[list[Failure]]:
    """Collects the failures that tf2onnx logs, and silences its log."""
    failures: list[Failure] = []
    thread = threading.get_ident()

    class FailureHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            arguments = record.args if isinstance(record.args, tuple) else ()
            if record.thread != thread:  # another thread may use tf2onnx at the same time
                return
            if record.msg.startswith("Tensorflow op"):
                failures.append(Failure(str(arguments[0]), str(arguments[1]), ""))
            elif record.msg.startswith("Failed to convert node"):
                op_type = str(arguments[2]).split("\n")[0].removeprefix("OP=")
                cause = record.exc_info[1] if record.exc_info else None
                failures.append(Failure(str(arguments[0]), op_type, f" in this use: {first_line(cause)}"))
            elif record.msg.startswith("rewriter") and (error := sys.exc_info()[1]) is not None:
                failures.append(_find_failed_operator(error))

    logger = logging.getLogger("tf2onnx")
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate, logger.level = [FailureHandler()], False, logging.ERROR
    try:
        yield failures
    finally:
        logger.handlers, logger.propagate, logger.level = before


def refuse_complex_arguments(signature: Signature, model: Any) -> None:
    """Raises UnsupportedError if a model has complex inputs or outputs, which no ONNX runtime accepts."""
    for spec in (*signature.inputs, *signature.outputs):
        if spec.dtype.startswith("complex"):
            raise UnsupportedError(
                Format.ONNX, model.name, f"{spec.name!r} is complex, and runtimes take no such tensor. {COMPLEX}"
            )


def unsupported_error(failures: Sequence[Failure], trace: Trace, model: Any) -> UnsupportedError:
    """Returns the error that names the operators that were not converted, each with its layer and a way out."""
    paths = list(trace.view.operators())
    sentences = []
    places = []
    for failure in failures:
        # A node in the body of a function has a relative name, which is the end of its full path.
        found = ((path, kind) for path, kind in paths if path == failure.node or path.endswith(f"/{failure.node}"))
        path, op_type = next(found, (failure.node, failure.op_type))
        places.append((path, op_type))
        is_complex = failure.op_type.endswith(OF_COMPLEX)
        reason = failure.reason or (" for complex numbers" if is_complex else "")
        place = f"operator {op_type!r} of {trace.view.place(path)}" if path else trace.view.place(path)
        if failure.is_mistake:
            sentences.append(f"tf2onnx failed at {place} by a mistake of its own ({failure.reason}).")
            sentences.append("Write this layer in another way, or export a SavedModel.")
            continue
        sentences.append(f"{place} has no ONNX form{reason}.")
        sentences += filter(None, [_WAYS_OUT.get(op_type) or (COMPLEX if is_complex else None)])
    path, op_type = places[0]
    return UnsupportedError(
        Format.ONNX, model.name, join_sentences(sentences), operator=op_type or None, **trace.view.location(path)
    )


COMPLEX = "Keep real and imaginary parts as two real tensors."
_LENGTH = "Export with opset_version=17 or later, or give the transformed axis a fixed length of at most 1024."
_LINEAR_ALGEBRA = (
    "ONNX has no decompositions: decompose a weight before the export, and any other matrix outside the model."
)
_IMAGE = "Prepare the images outside the model."
_HASH = (
    "ONNX lacks this hash. Use StringLookup or IntegerLookup with a vocabulary and num_oov_indices=1, or look up the "
    "values outside the model."
)
_TEXT = (
    "Export with opset_version=20 or later, which can lowercase texts, strip their punctuation and split them at "
    "white space. Prepare texts in any other way outside the model, and pass the integers."
)

_WAYS_OUT = {  # advice by the type of TensorFlow's operator
    **dict.fromkeys(("FFT", "FFT2D", "IFFT", "IFFT2D", "IRFFT", "RFFT"), _LENGTH),
    **dict.fromkeys(("Cholesky", "Eig", "LogMatrixDeterminant", "Lu", "MatrixInverse"), _LINEAR_ALGEBRA),
    **dict.fromkeys(("MatrixSolve", "MatrixTriangularSolve", "Qr", "SelfAdjointEigV2", "Svd"), _LINEAR_ALGEBRA),
    **dict.fromkeys(("AdjustContrastv2", "ImageProjectiveTransformV3", "ScaleAndTranslate"), _IMAGE),
    **dict.fromkeys(("LookupTableFindV2", "RaggedBincount", "RaggedTensorToTensor", "StaticRegexReplace"), _TEXT),
    **dict.fromkeys(("StringLower", "StringNGrams", "StringSplitV2", "UnicodeDecode", "UnicodeEncode"), _TEXT),
    **dict.fromkeys(("SparseCross", "SparseCrossHashed", "StringToHashBucketFast", "StringToHashBucketStrong"), _HASH),
    "Bitcast": "Only the sign bit has an ONNX form: use keras.ops.signbit.",
    "BitwiseAnd": "Export with opset_version=18 or later.",
    "CTCGreedyDecoder": "Return the scores and decode outside the model.",
    "Erfinv": "Use functions with an elementary form.",
    "UnsortedSegmentMax": "Export with opset_version=18 or later.",
    "UnsortedSegmentMin": "Export with opset_version=18 or later.",
}
