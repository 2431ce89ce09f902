"""The conversion of a traced function to an ONNX model in memory, with weights as inputs of the graph.

The function becomes one TensorFlow graph first, with inlined functions, folded constants and frozen variables.
The inlining of tf2onnx 1.17 takes three passes, two of which allocate a tensor of zeros for each weight.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes
from keras_pe.export.errors import UnsupportedError, first_line
from keras_pe.export.graph.tensorflow_internals import optimize_graph, with_constants
from keras_pe.export.graph.trace_function import Trace
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.onnx.handlers import all_handlers, opsets
from keras_pe.export.onnx.precomputed_operators import precompute_nodes
from keras_pe.export.onnx.tf2onnx_calls import (
    FailedError,
    convert_graph,
    refuse_complex_arguments,
    repair_frozen,
    unsupported_error,
)

_FIND = "LookupTableFindV2"
_NAME = re.compile(r"[^^:]+")
_ATTRIBUTES = {"string": "string", "int64": "int64", "float32": "float"}  # in the names of LabelEncoder's attributes


def convert(trace: Trace, opset: int, model: Any) -> Any:
    """Returns an `onnx.ModelProto`. Its graph inputs are those of the signature, followed by the weights.

    Raises:
        UnsupportedError: If an operator has no ONNX form.
    """
    signature = trace.signature
    refuse_complex_arguments(signature, model)
    _refuse_float8(model)
    inputs = [*trace.inputs, *(weight.argument for weight in trace.weights)]
    names = dict(zip(inputs, [*(s.name for s in signature.inputs), *(w.name for w in trace.weights)], strict=True))
    names |= dict(zip(trace.outputs, (spec.name for spec in signature.outputs), strict=True))
    write = partial(
        convert_graph,
        inputs=inputs,
        outputs=trace.outputs,
        opset=min(opset, opsets.WRITTEN[-1]),
        names=names,
        handlers={**all_handlers(opset), **lookup_handlers(trace)},
    )
    try:
        proto = _convert_or_precompute(write, inline(trace), trace)
        return proto if opset in opsets.WRITTEN else _convert_version(proto, opset)
    except FailedError as error:
        raise unsupported_error(error.failures, trace, model) from error
    except Exception as error:  # the libraries may raise any error
        raise UnsupportedError(Format.ONNX, model.name, f"the conversion failed: {first_line(error)}.") from error


def _refuse_float8(model: Any) -> None:
    """Raises UnsupportedError if a layer computes in float8: tf2onnx cannot write it, and the CPU cannot run it."""
    for layer in all_layers(model):
        if getattr(layer, "quantization_mode", None) == "float8":
            reason = (
                f"layer {layer.name!r} computes in float8, of which ONNX Runtime's CPU has no products. Export the "
                "model as it was before it was quantized, or quantize it to int8."
            )
            raise UnsupportedError(Format.ONNX, model.name, reason, layer=layer.name)


def _convert_or_precompute(write: Callable[[Any], Any], definition: Any, trace: Trace) -> Any:
    """Returns the ONNX model. Operators without an ONNX form are computed in advance if they depend only on weights.

    Raises:
        FailedError: If any other operator has no ONNX form.
    """
    while True:
        try:
            return write(definition)
        except FailedError as error:
            changed = precompute_nodes(definition, trace.weights, [failure.node for failure in error.failures])
            if changed is None:
                raise
            definition = changed


def _convert_version(proto: Any, opset: int) -> Any:
    """Converts the model to an opset that tf2onnx cannot write, in which the later operators belong to ONNX."""
    import onnx.version_converter

    proto.opset_import.add(domain=opsets.LATER_DOMAIN, version=1)
    _declare(proto.graph)
    converted = onnx.version_converter.convert_version(proto, opset)
    for node in all_nodes(converted.graph):
        if node.domain == opsets.LATER_DOMAIN:
            node.domain = ""
    return converted


def _declare(graph: Any) -> None:
    """Declares the types of the outputs of later operators, without which type inference in onnx 1.23 crashes."""
    from onnx import TensorProto

    types = {
        "StringSplit": (TensorProto.STRING, TensorProto.INT64),
        "StringConcat": (TensorProto.STRING,),
        "Equal": (TensorProto.BOOL,),
        **dict.fromkeys(("Gelu", "RotaryEmbedding"), (TensorProto.FLOAT,)),
    }
    inputs = {each.name: each.type.tensor_type.elem_type for each in graph.input}
    for body in all_graphs(graph):
        for node in body.node:
            if node.op_type == "TensorScatter":  # the only one that may compute in float16
                types["TensorScatter"] = (inputs[node.input[0]],)
            if node.op_type in types and node.op_type != "Equal":
                # tf2onnx drops the domain in branches and loops. `Equal` is exempt: its inputs may be numbers.
                node.domain = opsets.LATER_DOMAIN
            if node.domain == opsets.LATER_DOMAIN:
                for name, kind in zip(node.output, types[node.op_type], strict=True):
                    body.value_info.add(name=name).type.tensor_type.elem_type = kind


_CONTROL_FLOW = ("While", "StatelessWhile", "If", "StatelessIf")


def inline(trace: Trace) -> Any:
    """Returns a `GraphDef` for the outputs of a trace. Loops and branches stay operators with bodies."""
    definition = _freeze_variables(trace)
    _keep_shapes_of_lookups(definition, trace.function.graph)
    for nodes in [definition.node, *(function.node_def for function in definition.library.function)]:
        for node in nodes:
            if node.op in _CONTROL_FLOW:
                node.attr["_lower_using_switch_merge"].b = False  # keep TensorFlow from decomposing them
            node.attr.pop("_XlaMustCompile", None)  # let TensorFlow inline functions with `jit_compile=True`
    arguments = [weight.argument for weight in trace.weights]
    weights = {argument.partition(":")[0] for argument in arguments}
    # TensorFlow's optimizer allocates a tensor for each placeholder, but not for a constant in external memory.
    _rename(definition.node, weights, "Placeholder", "ImmutableConst")
    kept = [*trace.inputs, *arguments, *trace.outputs]
    optimized = optimize_graph(definition, kept)
    _rename_exchanged(definition, optimized, {name.partition(":")[0] for name in kept})
    definition = optimized
    _rename(definition.node, weights, "ImmutableConst", "Placeholder")
    for function in definition.library.function:
        for argument in function.arg_attr.values():
            argument.attr.pop("_output_shapes", None)  # unknown shapes would override the caller's
    return definition


def _freeze_variables(trace: Trace) -> Any:
    """Returns the `GraphDef` of the function, with constants for the variables that are not weights of the trace."""
    import tensorflow as tf

    if all(inner.dtype != tf.resource for _, inner in trace.function.graph.captures):
        definition = tf.compat.v1.GraphDef()
        definition.CopyFrom(trace.view.definition)
        return definition
    frozen = with_constants(trace.function, lower_control_flow=False, aggressive_inlining=True)
    return repair_frozen(frozen.graph.as_graph_def())


def _keep_shapes_of_lookups(definition: Any, graph: Any) -> None:
    """Adds the output shapes of tables to the graph, since TensorFlow loses them when it reads the graph."""
    known = {x.op.name: x.shape for op in graph.get_operations() if op.type == _FIND for x in op.outputs}
    kept: dict[str, str] = {}
    for node in list(definition.node):
        node.input[:] = [kept.get(name, name) for name in node.input]
        if node.op == _FIND and known.get(node.name) is not None:
            ensured = definition.node.add(name=f"{node.name}/shape", op="EnsureShape", input=[node.name])
            ensured.attr["T"].type = node.attr["Tout"].type
            ensured.attr["shape"].shape.CopyFrom(known[node.name].as_proto())
            kept[node.name] = ensured.name


def _rename_exchanged(before: Any, after: Any, kept: set[str]) -> None:
    """Renames each operator whose operands TensorFlow's optimizer has exchanged, since its name is of another value.

    The optimizer writes `x * (2 * y)` for `2 * (x * y)`, and gives the inner product the name of `x * y`.

    Args:
        before: The `GraphDef` before the optimizer.
        after: The `GraphDef` to change.
        kept: The names of the operators that the optimizer does not change.
    """
    nodes = {node.name: node for node in before.node}
    computed = {node.name for node in after.node if node.op != "Const"}

    def operands(node: Any) -> set[str]:
        return {_computed_by(nodes, name) for name in node.input if not name.startswith("^")}

    new = dict[str, str]()
    for node in after.node:
        was = nodes.get(node.name)
        if was is not None and node.name not in kept and not operands(was) & computed <= operands(node):
            new[node.name] = f"{node.name}__0"  # like the names of tf2onnx, whose layer is that of the prefix
    for node in after.node:
        node.name = new.get(node.name, node.name)
        node.input[:] = [_NAME.sub(lambda name: new.get(name[0], name[0]), each, count=1) for each in node.input]


def _computed_by(nodes: Mapping[str, Any], tensor: str) -> str:
    """Returns the operator that computes a tensor, without Identity operators."""
    name = tensor.partition(":")[0]
    while name in nodes and nodes[name].op == "Identity":
        name = nodes[name].input[0].partition(":")[0]
    return name


def _rename(nodes: Iterable[Any], names: set[str], old: str, new: str) -> None:
    for node in nodes:
        if node.name in names and node.op == old:
            node.op = new


def lookup_handlers(trace: Trace) -> Mapping[tuple[str, int], Callable[..., None]]:
    """Returns the handlers of the operators that read a table; an empty mapping if the function has no table."""
    contents = _contents(trace)
    if not contents:
        return {}
    from keras_pe.export.onnx.handlers.handler_registry import Replacement

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
        if ctx.shape(output) is None:  # TensorFlow does not infer that the shape is that of the keys
            ctx.declare(output, ctx.shape(keys), ctx.onnx_dtype(output))
        ctx.finish(result)

    return {(_FIND, opset): find for opset in opsets.WRITTEN}


def _encode(ctx: Any, keys: str, known: Any, values: Any, default: Any) -> str:
    attributes = {f"keys_{_kind(known)}s": known.tolist(), f"values_{_kind(values)}s": values.tolist()}
    attributes[f"default_{_kind(values)}"] = default.item()
    if _kind(known) == "int64":
        keys = ctx.cast(keys, "int64")
    return str(ctx.emit("LabelEncoder", keys, domain=opsets.ML_DOMAIN, **attributes))


def _kind(array: Any) -> str:
    name = "string" if array.dtype == object else array.dtype.name
    widened = {"int32": "int64"}.get(name, name)
    if widened not in _ATTRIBUTES:
        raise ValueError(f"A table of {name} has no ONNX form.")
    return _ATTRIBUTES[widened]


def _contents(trace: Trace) -> dict[str, tuple[Any, Any]]:
    """Returns the keys and values of each table, by the name of the table's tensor in the graph."""
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
            order = np.argsort(keys.numpy(), kind="stable")  # equal models must give equal files
            found[name] = (keys.numpy()[order], values.numpy()[order])
    return found
