"""What depends on weights alone, computed where an operator has no ONNX form: an inverse, a decomposition, a power.

Elsewhere it stays an operator: a weight that is transposed, say, would otherwise stand in the file twice.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from keras_pe.export.graph.tracing import Weight
from keras_pe.export.model.watch.traceable import needed_nodes


def with_values(definition: Any, weights: Iterable[Weight], names: Iterable[str]) -> Any | None:
    """Returns a graph with constants for what weights alone decide; None where there is nothing of the kind.

    Args:
        definition: A `GraphDef` without calls of functions, but for loops and branches.
        weights: What it takes beside the model's inputs.
        names: The nodes that have no ONNX form, in the graph or in bodies of its loops and branches. Where one needs an
            input of the model too, what else it takes is computed: some forms are there for a constant only.
    """
    import tensorflow as tf

    nodes = {node.name: node for node in definition.node}
    arguments = {_node_of(weight.argument): weight for weight in weights}

    def is_known(tensor: str) -> bool:
        sources = (name for name in needed_nodes(definition.node, [tensor]) if nodes[name].op == "Placeholder")
        return all(name in arguments for name in sources)

    named = _in_graph(definition, set(names))
    dropped = set(filter(is_known, named))
    wanted = {
        _full(tensor): None
        for node in definition.node
        for tensor in node.input
        if _is_replaced(node.name, tensor, named, dropped)
        if _node_of(tensor) in dropped or (nodes[_node_of(tensor)].op != "Const" and is_known(tensor))
    }
    if not wanted:
        return None
    changed = tf.compat.v1.GraphDef(versions=definition.versions)
    constants = {}
    for number, (tensor, value) in enumerate(_values(definition, list(wanted), arguments).items()):
        constants[tensor] = f"{_node_of(tensor)}/value_{number}"  # in the scope of the layer
        constant = changed.node.add(name=constants[tensor], op="Const")
        stored = tf.make_tensor_proto(value)
        constant.attr["dtype"].type = stored.dtype
        constant.attr["value"].tensor.CopyFrom(stored)
    for node in definition.node:
        if node.name not in dropped:
            kept = changed.node.add()
            kept.CopyFrom(node)
            kept.input[:] = [
                constants.get(_full(tensor), tensor) if _is_replaced(node.name, tensor, named, dropped) else tensor
                for tensor in node.input
                if not (tensor.startswith("^") and _node_of(tensor) in dropped)
            ]
    changed.library.function.extend(_called(changed.node, definition.library))  # the converter reads those unused too
    return changed


def _in_graph(definition: Any, names: Collection[str]) -> set[str]:
    """Returns the nodes themselves, and for those that are in a loop or branch the one that this is the body of."""
    return {
        node.name
        for node in definition.node
        if node.name in names
        or any(inner.name in names for body in _called([node], definition.library) for inner in body.node_def)
    }


def _called(nodes: Iterable[Any], library: Any) -> list[Any]:
    """Returns the functions that nodes call, and those that these call."""
    functions = {function.signature.name: function for function in library.function}
    found: dict[str, Any] = {}
    waiting = list(nodes)
    while waiting:
        values = waiting.pop().attr.values()
        names = {each.name for value in values for each in (value.func, *value.list.func)}
        for name in sorted(names & (functions.keys() - found.keys())):
            found[name] = functions[name]
            waiting += functions[name].node_def
    return list(found.values())


def _is_replaced(reader: str, tensor: str, named: Collection[str], dropped: Collection[str]) -> bool:
    """Returns whether a node reads a tensor as a constant from now on."""
    is_data = not tensor.startswith("^")
    return is_data and reader not in dropped and (reader in named or _node_of(tensor) in dropped)


def _values(definition: Any, tensors: list[str], arguments: Mapping[str, Weight]) -> dict[str, Any]:
    """Returns the values of tensors, as TensorFlow computes them."""
    import tensorflow as tf

    needed = needed_nodes(definition.node, tensors)
    part = tf.compat.v1.GraphDef(versions=definition.versions, library=definition.library)
    part.node.extend(node for node in definition.node if node.name in needed)
    for node in part.node:
        node.input[:] = [tensor for tensor in node.input if not tensor.startswith("^")]
    given = {_full(name): arguments[name].read() for name in arguments if name in needed}
    # A session of its own: the bodies of loops and branches have names that TensorFlow knows already.
    with tf.Graph().as_default(), tf.device("/cpu:0"), tf.compat.v1.Session() as session:
        results = tf.graph_util.import_graph_def(part, return_elements=tensors, name="")
        return dict(zip(tensors, session.run(results, given), strict=True))


def _node_of(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def _full(tensor: str) -> str:
    return tensor if ":" in tensor else f"{tensor}:0"
