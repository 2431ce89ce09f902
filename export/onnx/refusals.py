"""What stops an export to ONNX: operators without an ONNX form, each by name."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from keras_pe.export.errors import UnsupportedError
from keras_pe.export.formats import Format
from keras_pe.export.graph.tracing import Trace
from keras_pe.export.messages import first_line, joined
from keras_pe.export.model.signature import Signature
from keras_pe.export.onnx.workarounds import COMPLEX, way_around

OF_COMPLEX = " of complex numbers"  # ends the type of an operator that takes or returns them


@dataclass(frozen=True)
class Failure:
    """An operator that was not converted: its name in the graph, its type, and what tf2onnx said, if anything."""

    node: str
    kind: str
    reason: str


def refuse_complex_arguments(signature: Signature, model: Any) -> None:
    """Raises UnsupportedError if a model takes or returns complex numbers, which ONNX knows and no runtime takes."""
    for spec in (*signature.inputs, *signature.outputs):
        if spec.dtype.startswith("complex"):
            raise UnsupportedError(
                Format.ONNX, model.name, f"{spec.name!r} is complex, and runtimes take no such tensor. {COMPLEX}"
            )


def refuse_failures(failures: list[Failure], trace: Trace, model: Any) -> None:
    """Raises UnsupportedError if an operator was not converted."""
    if not failures:
        return
    paths = list(trace.view.operators())
    sentences = []
    places = []
    for failure in failures:
        # The body of a function has names of its own, which stand at the end of the whole path.
        found = ((path, kind) for path, kind in paths if path == failure.node or path.endswith(f"/{failure.node}"))
        path, kind = next(found, (failure.node, failure.kind))
        places.append((path, kind))
        sentences.append(f"operator {kind!r} of {trace.view.place(path)} has no ONNX form{failure.reason}.")
        is_complex = failure.kind.endswith(OF_COMPLEX)
        sentences += filter(None, [way_around(kind) or (COMPLEX if is_complex else None)])
    layer, operator = trace.view.layer(places[0][0]), places[0][1]
    raise UnsupportedError(Format.ONNX, model.name, joined(sentences), layer=layer, operator=operator)


@contextlib.contextmanager
def collected_failures() -> Iterator[list[Failure]]:
    """Collects what tf2onnx 1.17 only logs before it writes an invalid graph, and keeps it off the console."""
    failures: list[Failure] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            arguments = record.args if isinstance(record.args, tuple) else ()
            if record.msg.startswith("Tensorflow op"):
                kind = str(arguments[1])
                reason = " for complex numbers" if kind.endswith(OF_COMPLEX) else ""
                failures.append(Failure(str(arguments[0]), kind, reason))
            elif record.msg.startswith("Failed to convert node"):
                kind = str(arguments[2]).split("\n")[0].removeprefix("OP=")
                cause = record.exc_info[1] if record.exc_info else None
                failures.append(Failure(str(arguments[0]), kind, f" in this use: {first_line(cause)}"))
            elif record.msg.startswith("rewriter"):
                failures.append(Failure("", "graph", f": {record.getMessage()}"))

    logger = logging.getLogger("tf2onnx")
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate, logger.level = [Collector()], False, logging.ERROR
    try:
        yield failures
    finally:
        logger.handlers, logger.propagate, logger.level = before
