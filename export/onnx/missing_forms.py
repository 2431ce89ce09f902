"""What has no ONNX form, each named with its layer: operators, and complex numbers that go in or out."""

from collections.abc import Sequence
from typing import Any

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.graph.tracing import Trace
from keras_pe.export.messages import joined
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.onnx.handlers.marked_operators import OF_COMPLEX
from keras_pe.export.onnx.tf2onnx_door import Failure
from keras_pe.export.onnx.workarounds import COMPLEX, workaround


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
        sentences.append(f"operator {op_type!r} of {trace.view.place(path)} has no ONNX form{reason}.")
        sentences += filter(None, [workaround(op_type) or (COMPLEX if is_complex else None)])
    path, op_type = places[0]
    return UnsupportedError(Format.ONNX, model.name, joined(sentences), layer=trace.view.layer(path), operator=op_type)
