"""Lookup tables, which a traced function holds as resources: their content becomes a LabelEncoder of the file."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_pe.export.graph.tracing import Trace
from keras_pe.export.onnx.handlers import opsets

_FIND = "LookupTableFindV2"
_ATTRIBUTES = {"string": "string", "int64": "int64", "float32": "float"}  # LabelEncoder's, by element type


def lookup_handlers(trace: Trace) -> Mapping[tuple[str, int], Callable[..., None]]:
    """Returns the handlers of the operators that read a table; none where the function holds no table."""
    contents = _contents(trace)
    if not contents:
        return {}
    from keras_pe.export.onnx.handlers.replacement import Replacement

    def find(graph: Any, node: Any, **_: Any) -> None:
        ctx = Replacement(graph, node)
        table, keys, default = ctx.inputs
        if table not in contents:
            raise ValueError("A table within a branch or a loop has no ONNX form.")
        value = ctx.value(default)
        if value is None:
            raise ValueError("A table whose default is computed has no ONNX form.")
        known, values = contents[table]
        result = _encode(ctx, keys, known, values, value)
        (output,) = ctx.outputs
        if ctx.shape(output) is None:  # TensorFlow does not say that it is the keys'
            ctx.declare(output, ctx.shape(keys), ctx.onnx_dtype(output))
        ctx.finish(result)

    return {(_FIND, opset): find for opset in opsets.WRITTEN}


def _encode(ctx: Any, keys: str, known: Any, values: Any, default: Any) -> str:
    attributes = {f"keys_{_kind(known)}s": _plain(known), f"values_{_kind(values)}s": _plain(values)}
    attributes[f"default_{_kind(values)}"] = _plain(default.reshape(-1))[0]
    if _kind(known) == "int64":
        keys = ctx.cast(keys, "int64")
    return str(ctx.emit_ml("LabelEncoder", keys, **attributes))


def _kind(array: Any) -> str:
    name = "string" if array.dtype == object else array.dtype.name
    widened = {"int32": "int64"}.get(name, name)
    if widened not in _ATTRIBUTES:
        raise ValueError(f"A table of {name} has no ONNX form.")
    return _ATTRIBUTES[widened]


def _plain(array: Any) -> list[Any]:
    return array.tolist()  # type: ignore[no-any-return]


def _contents(trace: Trace) -> dict[str, tuple[Any, Any]]:
    """Returns the keys and values of each table, by the name of the tensor that stands for it in the graph."""
    import tensorflow as tf

    handles = {inner.op.name: (inner.name, handle) for handle, inner in trace.function.graph.captures}
    found = {}
    for node in trace.view.definition.node:
        table = node.input[0] if node.op == _FIND else None
        if table in handles:
            name, handle = handles[table]
            keys, values = tf.raw_ops.LookupTableExportV2(
                table_handle=handle, Tkeys=node.attr["Tin"].type, Tvalues=node.attr["Tout"].type
            )
            order = np.argsort(keys.numpy(), kind="stable")  # a table has none, and a file is written alike each time
            found[name] = (keys.numpy()[order], values.numpy()[order])
    return found
