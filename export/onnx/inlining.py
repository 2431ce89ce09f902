"""A traced function as one TensorFlow graph: functions inlined, constants folded, free variables frozen.

tf2onnx 1.17 does the same in three passes, two of which fill a tensor of zeros for each weight.
"""

from collections.abc import Iterable
from typing import Any

from keras_pe.export.graph.tensorflow_internals import optimized, with_constants
from keras_pe.export.graph.tracing import Trace
from keras_pe.export.onnx.tf2onnx_door import repair_frozen

_CONTROL_FLOW = ("While", "StatelessWhile", "If", "StatelessIf")


def inline(trace: Trace) -> Any:
    """Returns a `GraphDef` that computes the trace's outputs; loops and branches stay operators with bodies."""
    definition = _frozen(trace)
    _keep_shapes_of_lookups(definition, trace.function.graph)
    for nodes in [definition.node, *(function.node_def for function in definition.library.function)]:
        for node in nodes:
            if node.op in _CONTROL_FLOW:
                node.attr["_lower_using_switch_merge"].b = False  # else TensorFlow takes them apart
            node.attr.pop("_XlaMustCompile", None)  # else TensorFlow inlines no function of `jit_compile=True`
    arguments = [weight.argument for weight in trace.weights]
    weights = {argument.partition(":")[0] for argument in arguments}
    # TensorFlow's optimizer fills a tensor for each placeholder, but not for a constant whose value is elsewhere.
    _rename(definition.node, weights, "Placeholder", "ImmutableConst")
    definition = optimized(definition, [*trace.inputs, *arguments, *trace.outputs])
    _rename(definition.node, weights, "ImmutableConst", "Placeholder")
    for function in definition.library.function:
        for argument in function.arg_attr.values():
            argument.attr.pop("_output_shapes", None)  # unknown ones, which stand before those of the caller
    return definition


def _frozen(trace: Trace) -> Any:
    """Returns the function's `GraphDef`, with constants for the variables that are no weights of the trace, if any."""
    import tensorflow as tf

    if all(inner.dtype != tf.resource for _, inner in trace.function.graph.captures):
        definition = tf.compat.v1.GraphDef()
        definition.CopyFrom(trace.view.definition)
        return definition
    frozen = with_constants(trace.function, lower_control_flow=False, aggressive_inlining=True)
    return repair_frozen(frozen.graph.as_graph_def())


def _keep_shapes_of_lookups(definition: Any, graph: Any) -> None:
    """Writes the shapes of what tables return into the graph: TensorFlow forgets them where it reads a graph."""
    known = {x.op.name: x.shape for op in graph.get_operations() if op.type == "LookupTableFindV2" for x in op.outputs}
    kept: dict[str, str] = {}
    for node in list(definition.node):
        node.input[:] = [kept.get(name, name) for name in node.input]
        if node.op == "LookupTableFindV2" and known.get(node.name) is not None:
            ensured = definition.node.add(name=f"{node.name}/shape", op="EnsureShape", input=[node.name])
            ensured.attr["T"].type = node.attr["Tout"].type
            ensured.attr["shape"].shape.CopyFrom(known[node.name].as_proto())
            kept[node.name] = ensured.name


def _rename(nodes: Iterable[Any], names: set[str], old: str, new: str) -> None:
    for node in nodes:
        if node.name in names and node.op == old:
            node.op = new
