"""What a traced graph does that a file cannot, and which layer does it.

Keras opens a name scope for each layer it calls, so the path of an operator names its layer.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from keras_pe.export.model.keras_internals import all_layers

_RANDOM = re.compile(
    "(Stateless)?(Random|Multinomial|TruncatedNormal|Parameterized|Shuffle)|Stateful(Standard|Uniform|Truncated|Random)|Rng"
)
_ASSIGNS = re.compile("Assign|Resource(Apply|Scatter|SparseApply)|LookupTable(Insert|Import)")
_MOST_CALLS = 20  # functions within functions; a graph that calls itself has no end

TIME_DISTRIBUTED = (
    "layer {layer!r} (TimeDistributed) has a dynamic time axis, for which Keras traces as many steps as the batch has "
    "rows. Give the axis a fixed length, or leave the wrapper out around a layer such as Dense that needs none."
)


def operators(graph: Any, *, needed: bool = False) -> Iterator[tuple[str, str]]:
    """Returns the path and type of every operator of a `tf.Graph`, those of the functions it calls included.

    Args:
        graph: The graph.
        needed: Leave out what no output depends on, in the graph itself and within each function.
    """
    definition = graph.as_graph_def()
    functions = {function.signature.name: function for function in definition.library.function}

    def walk(nodes: Any, results: Iterable[str], caller: str, depth: int) -> Iterator[tuple[str, str]]:
        kept = _needed(nodes, results) if needed else {node.name for node in nodes}
        for node in nodes:
            if node.name not in kept:
                continue
            path = f"{caller}{node.name}"
            yield path, node.op
            called = [attr.func.name for attr in node.attr.values() if attr.func.name]
            called += [func.name for attr in node.attr.values() for func in attr.list.func]
            for name in called if depth < _MOST_CALLS else []:
                if name in functions:
                    body = functions[name]
                    yield from walk(body.node_def, body.ret.values(), f"{path}/", depth + 1)

    return walk(definition.node, _results(graph), "", 0)


def needed_nodes(graph: Any) -> set[str]:
    """Returns the names of the nodes of a `tf.Graph`, without those in functions, that an output depends on."""
    return _needed(graph.as_graph_def().node, _results(graph))


def random_operators(graph: Any) -> list[tuple[str, str]]:
    """Returns the path and type of what draws random numbers that an output depends on.

    An inactive Dropout draws none. Some of Keras' preprocessing layers draw them in inference and throw them away.
    """
    return [(path, kind) for path, kind in operators(graph, needed=True) if _RANDOM.match(kind)]


def assigning_operators(graph: Any) -> list[tuple[str, str]]:
    """Returns the path and type of what changes a variable or a table, unless no output depends on it."""
    nodes = graph.as_graph_def().node
    unread = {node.name for node in nodes if node.op == "Placeholder"} - _needed(nodes, _results(graph))
    harmless = {node.name for node in nodes if _ASSIGNS.match(node.op) and node.input[0].partition(":")[0] in unread}
    return [(path, kind) for path, kind in operators(graph) if _ASSIGNS.match(kind) and path not in harmless]


def dynamic_time_distributed(graph: Any, model: Any) -> str | None:
    """Returns the name of a TimeDistributed layer that Keras has traced with the batch size for the number of steps.

    It does so (Keras 3.15) wherever the time axis is dynamic, with a vectorised loop; a fixed axis is unrolled.
    """
    import keras

    names = {layer.name for layer in all_layers(model) if isinstance(layer, keras.layers.TimeDistributed)}
    for path, _ in operators(graph) if names else ():
        parts = path.split("/")
        if "loop_body" in parts:
            for part in reversed(parts[: parts.index("loop_body")]):
                if _layer_name(part, names):
                    return _layer_name(part, names)
    return None


def describe_place(path: str, model: Any) -> str:
    """Returns "layer 'x'" for the innermost layer on the path of an operator, or "model 'y'"."""
    names = {layer.name for layer in all_layers(model) if layer is not model}
    found = (_layer_name(part, names) for part in reversed(path.split("/")))
    name = next((name for name in found if name), None)
    return f"layer {name!r}" if name else f"model {model.name!r}"


def _layer_name(scope: str, names: set[str]) -> str | None:
    """TensorFlow numbers a scope that is opened again, and Keras opens each at least twice: `dense_1` is `dense`."""
    plain = re.sub(r"_\d+$", "", scope)
    return plain if plain in names else scope if scope in names else None


def _results(graph: Any) -> list[str]:
    return [tensor.name for tensor in graph.outputs]


def _needed(nodes: Any, results: Iterable[str]) -> set[str]:
    """Returns the names of the nodes that the results depend on through data; a tensor is named "node:..." ."""
    inputs = {node.name: [name for name in node.input if not name.startswith("^")] for node in nodes}
    found: set[str] = set()
    waiting = list(results)
    while waiting:
        name = waiting.pop().partition(":")[0]
        if name in inputs and name not in found:
            found.add(name)
            waiting += inputs[name]
    return found
