"""The precomputation of operators without an ONNX form, such as an inverse or a decomposition of weights.

Other operators on weights stay operators: precomputing a transposition would store the weight twice in the file.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from keras_pe.export.graph.trace_function import Weight
from keras_pe.export.model.watch.symbolic_trace import needed_nodes


def precompute_nodes(definition: Any, weights: Iterable[Weight], names: Iterable[str]) -> Any | None:
    """Returns a graph in which tensors that depend only on weights are constants; None if there are no such tensors.

    Args:
        definition: A `GraphDef` without calls of functions, except for loops and branches.
        weights: The inputs of the graph that are weights.
        names: The nodes without an ONNX form, in the graph or in bodies of its loops and branches. If a node also
            depends on an input of the model, only its other inputs are precomputed. Some operators need constants.
    """
    import tensorflow as tf

    nodes = {node.name: node for node in definition.node}
    arguments = {_node_of(weight.argument): weight for weight in weights}

    def is_known(tensor: str) -> bool:
        sources = (name for name in needed_nodes(definition.node, [tensor]) if nodes[name].op == "Placeholder")
        return all(name in arguments for name in sources)

    # A constant without an ONNX form would be replaced by another such constant without end.
    named = {name for name in _find_graph_nodes(definition, set(names)) if nodes[name].op != "Const"}
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
        constants[tensor] = f"{_node_of(tensor)}/value_{number}"  # keep the scope of the layer
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
    changed.library.function.extend(_collect_functions(changed.node, definition.library))  # without unused functions
    return changed


def _find_graph_nodes(definition: Any, names: Collection[str]) -> set[str]:
    """Returns the names of nodes in the graph. A node in a body is replaced by the loop or branch of the body."""
    return {
        node.name
        for node in definition.node
        if node.name in names
        or any(
            inner.name in names for body in _collect_functions([node], definition.library) for inner in body.node_def
        )
    }


def _collect_functions(nodes: Iterable[Any], library: Any) -> list[Any]:
    """Returns the functions that nodes call, directly or indirectly."""
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
    """Returns whether a node will read a tensor as a constant."""
    is_data = not tensor.startswith("^")
    return is_data and reader not in dropped and (reader in named or _node_of(tensor) in dropped)


def _values(definition: Any, tensors: list[str], arguments: Mapping[str, Weight]) -> dict[str, Any]:
    """Computes the values of tensors with TensorFlow."""
    import tensorflow as tf

    needed = needed_nodes(definition.node, tensors)
    part = tf.compat.v1.GraphDef(versions=definition.versions, library=definition.library)
    part.node.extend(node for node in definition.node if node.name in needed)
    for node in part.node:
        node.input[:] = [tensor for tensor in node.input if not tensor.startswith("^")]
    given = {_full(name): arguments[name].read() for name in arguments if name in needed}
    # Use a new graph and session: the names of the bodies of loops and branches are taken in the current one.
    with tf.Graph().as_default(), tf.device("/cpu:0"), tf.compat.v1.Session() as session:
        results = tf.graph_util.import_graph_def(part, return_elements=tensors, name="")
        return dict(zip(tensors, session.run(results, given), strict=True))


def _node_of(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def _full(tensor: str) -> str:
    return tensor if ":" in tensor else f"{tensor}:0"
