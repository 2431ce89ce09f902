"""The one door to tf2onnx 1.17, changed while a conversion is in it and as it was afterwards, and what it lacks.

What Keras' own export changes to let it run with NumPy 2 stays changed, as it does there.
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
from keras_pe.export.errors import UnsupportedError, first_line, joined, typed
from keras_pe.export.graph.tracing import Trace
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.onnx.tf2onnx_repairs import Handlers, repaired

OF_COMPLEX, OF_TEXTS = " of complex numbers", " of texts"
"""End the type of an operator that takes or returns complex numbers, and of one that compares texts."""

_LOCK = threading.RLock()


@dataclass(frozen=True)
class Failure:
    """An operator that was not converted.

    Attributes:
        node: Its name in the graph; empty if the graph as a whole was not converted.
        op_type: Its type.
        reason: What tf2onnx said, if anything.
        is_mistake: Whether tf2onnx raised an error of Python instead of a refusal.
    """

    node: str
    op_type: str
    reason: str
    is_mistake: bool = False


class FailedError(Exception):
    """Some operators were not converted, which tf2onnx only logs before it writes an invalid graph."""

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
        inputs: The names of the tensors it takes.
        outputs: The names of the tensors it returns.
        opset: The ONNX operator set.
        names: What tensors are called in the result.
        handlers: They go before tf2onnx's own.

    Raises:
        FailedError: If operators were not converted, or tf2onnx failed.
    """
    import tensorflow as tf
    from tf2onnx import tfonnx

    with _LOCK, repaired(handlers), _collected_failures() as failures:
        try:
            with tf.device("/cpu:0"), tf.Graph().as_default() as graph:
                tf.import_graph_def(definition, name="")
                converted = tfonnx.process_tf_graph(
                    graph,
                    continue_on_error=True,  # failures are collected, so that all of them are named
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
            raise FailedError(failures or [_at_fault(error) or _unplaced(error)]) from error
        raise FailedError(failures)


def repair_frozen(definition: Any) -> Any:
    """Repairs a `GraphDef` whose variables TensorFlow made constants: it forgets some reads of them in functions."""
    from tf2onnx.tf_loader import fix_freezing_errors_part2

    return fix_freezing_errors_part2(definition)


def _mark(graph: Any, nodes: list[Any]) -> list[Any]:
    """Gives operators of complex numbers and of texts types of their own: handlers know operators by their type alone.

    A handler of real numbers would take the wrong axis of complex ones, and tf2onnx reads a number in every text before
    it compares two. tf2onnx calls this for each graph before the handlers.
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


def _at_fault(error: BaseException) -> Failure | None:
    """Returns the operator that tf2onnx was at when it raised an error; None if it was at none.

    tf2onnx does not say where it was. The operator, or the node in the innermost frame of the traceback, names it; a
    node that tf2onnx has added is named by the nearest one before it that has the path of an operator.
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
                return Failure(value.name, value.type, typed(error), is_mistake=True)
            seen.add(value.name)
            waiting.extendleft(reversed(getattr(value, "inputs", ())))
    return None


def _unplaced(error: BaseException) -> Failure:
    """Returns the failure of a graph as a whole."""
    return Failure("", "", typed(error), is_mistake=True)


@contextlib.contextmanager
def _collected_failures() -> Iterator[list[Failure]]:
    """Collects what tf2onnx only logs, and keeps it off the console."""
    failures: list[Failure] = []
    thread = threading.get_ident()

    class FailureHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            arguments = record.args if isinstance(record.args, tuple) else ()
            if record.thread != thread:  # of somebody else who uses tf2onnx meanwhile
                return
            if record.msg.startswith("Tensorflow op"):
                failures.append(Failure(str(arguments[0]), str(arguments[1]), ""))
            elif record.msg.startswith("Failed to convert node"):
                op_type = str(arguments[2]).split("\n")[0].removeprefix("OP=")
                cause = record.exc_info[1] if record.exc_info else None
                failures.append(Failure(str(arguments[0]), op_type, f" in this use: {first_line(cause)}"))
            elif record.msg.startswith("rewriter") and (error := sys.exc_info()[1]) is not None:
                failures.append(_at_fault(error) or _unplaced(error))

    logger = logging.getLogger("tf2onnx")
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate, logger.level = [FailureHandler()], False, logging.ERROR
    try:
        yield failures
    finally:
        logger.handlers, logger.propagate, logger.level = before


def refuse_complex_arguments(signature: Signature, model: Any) -> None:
    """Raises UnsupportedError if a model takes or returns complex numbers, which ONNX knows and no runtime takes."""
    for spec in (*signature.inputs, *signature.outputs):
        if spec.dtype.startswith("complex"):
            raise UnsupportedError(
                Format.ONNX, model.name, f"{spec.name!r} is complex, and runtimes take no such tensor. {COMPLEX}"
            )


def unsupported(failures: Sequence[Failure], trace: Trace, model: Any) -> UnsupportedError:
    """Returns the error that names the operators that were not converted, each with its layer and a way out."""
    paths = list(trace.view.operators())
    sentences = []
    places = []
    for failure in failures:
        # The body of a function has names of its own, which stand at the end of the whole path.
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
        Format.ONNX, model.name, joined(sentences), layer=trace.view.layer(path), operator=op_type or None
    )


COMPLEX = "Keep real and imaginary parts as two real tensors."
_LENGTH = "Export with opset_version=17 or later, or give the transformed axis a fixed length of at most 1024."
_LINEAR_ALGEBRA = "ONNX has no decompositions: precompute it where it is of weights, or leave it to the caller."
_IMAGE = "Leave this preparation of images to the caller."
_HASH = (
    "ONNX has no such hash: take StringLookup or IntegerLookup with a vocabulary and one index for all unknown words "
    "(num_oov_indices=1), or leave it to the caller."
)
_TEXT = (
    "Export with opset_version=20 or later, which can lower texts, strip their punctuation and split them at white "
    "space. Leave any other preparation of texts to the caller, and let the model take the integers."
)

_WAYS_OUT = {  # what to do instead, by TensorFlow's operator
    **dict.fromkeys(("FFT", "FFT2D", "IFFT", "IFFT2D", "IRFFT", "RFFT"), _LENGTH),
    **dict.fromkeys(("Cholesky", "Eig", "LogMatrixDeterminant", "Lu", "MatrixInverse"), _LINEAR_ALGEBRA),
    **dict.fromkeys(("MatrixSolve", "MatrixTriangularSolve", "Qr", "SelfAdjointEigV2", "Svd"), _LINEAR_ALGEBRA),
    **dict.fromkeys(("AdjustContrastv2", "ImageProjectiveTransformV3", "ScaleAndTranslate"), _IMAGE),
    **dict.fromkeys(("LookupTableFindV2", "RaggedBincount", "RaggedTensorToTensor", "StaticRegexReplace"), _TEXT),
    **dict.fromkeys(("StringLower", "StringNGrams", "StringSplitV2", "UnicodeDecode", "UnicodeEncode"), _TEXT),
    **dict.fromkeys(("SparseCross", "SparseCrossHashed", "StringToHashBucketFast", "StringToHashBucketStrong"), _HASH),
    "Bitcast": "Only the sign bit can be had, with keras.ops.signbit.",
    "BitwiseAnd": "Export with opset_version=18 or later.",
    "CTCGreedyDecoder": "Return the scores and decode outside the model.",
    "Erfinv": "Keep to functions with an elementary form.",
    "UnsortedSegmentMax": "Export with opset_version=18 or later.",
    "UnsortedSegmentMin": "Export with opset_version=18 or later.",
}
