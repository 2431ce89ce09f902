"""The part of a traced graph that the shapes in it depend on: small, so that it can be asked often."""

from collections.abc import Collection, Iterable
from typing import Any


def shape_graph(graph: Any, inputs: Collection[str], outputs: Collection[str]) -> Any:
    """Returns a `GraphDef` with all that depends on the inputs, and what those shapes follow from.

    Numbers that are computed of weights alone become placeholders, one of each shape: they say nothing about a size.
    Equal constants become one.

    Args:
        graph: A `tf.Graph` in which weights are placeholders.
        inputs: The names of the operators whose shapes will be set.
        outputs: The names of the operators that must stay.
    """
    import tensorflow as tf

    followers, weights = set(inputs), set[str]()
    shapes: dict[tuple[Any, ...], str] = {}
    merged: dict[str, str] = {}
    for operator in graph.get_operations():  # in the order in which they were made: what is read comes before
        name, sources = operator.name, {tensor.op.name for tensor in operator.inputs}
        if name in followers or not sources.isdisjoint(followers):
            followers.add(name)
        elif operator.type == "Placeholder" or not sources.isdisjoint(weights):
            weights.add(name)
            if name not in outputs and _is_number_of_known_shape(operator.outputs):
                (tensor,) = operator.outputs
                merged[name] = shapes.setdefault((tensor.dtype, *tensor.shape), name)
    definition = graph.as_graph_def()
    constants: dict[bytes, str] = {}
    for node in definition.node:
        if node.op == "Const" and node.name not in outputs:
            merged[node.name] = constants.setdefault(node.attr["value"].SerializeToString(), node.name)
    kinds = {name: kind for kind, name in shapes.items()}
    for node in definition.node:
        if node.name in kinds:
            dtype, *shape = kinds[node.name]
            node.CopyFrom(tf.compat.v1.NodeDef(name=node.name, op="Placeholder"))
            node.attr["dtype"].type = dtype.as_datatype_enum
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())
        else:
            read = (source.removesuffix(":0") for source in node.input if not source.startswith("^"))
            node.input[:] = [merged.get(source, source) for source in read]
            node.attr.pop("_class", None)  # may name an operator that goes
    needed = _needed(definition, [*followers, *outputs])
    part = tf.compat.v1.GraphDef(library=definition.library, versions=definition.versions)
    part.node.extend(node for node in definition.node if node.name in needed)
    return part


def _needed(definition: Any, names: Iterable[str]) -> set[str]:
    """Returns the names of the operators that some are computed from, themselves among them."""
    sources = {node.name: [name.partition(":")[0].lstrip("^") for name in node.input] for node in definition.node}
    needed, waiting = set[str](), list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += sources[name]
    return needed


def _is_number_of_known_shape(tensors: Any) -> bool:
    """Whether it is one tensor of floating-point numbers, no single one: that may be a scale of sizes."""
    return (
        len(tensors) == 1
        and tensors[0].dtype.is_floating
        and bool(tensors[0].shape.rank)
        and tensors[0].shape.is_fully_defined()
    )
