"""What a traced graph does that a file cannot, and which layer does it.

Keras opens a name scope for each layer it calls, so the path of an operator names its layer.
"""

import re
from collections.abc import Iterator
from typing import Any

from keras_pe.export.keras_internals import all_layers

_RANDOM = re.compile(
    "(Stateless)?(Random|Multinomial|TruncatedNormal|Parameterized|Shuffle)|Stateful(Standard|Uniform|Truncated|Random)|Rng"
)
_ASSIGNS = re.compile("Assign|Resource(Apply|Scatter|SparseApply)|LookupTable(Insert|Import)")
_MOST_CALLS = 20  # functions within functions; a graph that calls itself has no end

TIME_DISTRIBUTED = (
    "layer {layer!r} (TimeDistributed) has a dynamic time axis, for which Keras traces as many steps as the batch has "
    "rows. Give the axis a fixed length, or leave the wrapper out around a layer such as Dense that needs none."
)


def operators(graph: Any) -> Iterator[tuple[str, str]]:
    """Returns the path and type of every operator of a `tf.Graph`, those of the functions it calls included."""
    definition = graph.as_graph_def()
    functions = {function.signature.name: function.node_def for function in definition.library.function}

    def walk(nodes: Any, caller: str, depth: int) -> Iterator[tuple[str, str]]:
        for node in nodes:
            path = f"{caller}{node.name}"
            yield path, node.op
            called = [attr.func.name for attr in node.attr.values() if attr.func.name]
            called += [func.name for attr in node.attr.values() for func in attr.list.func]
            for name in called if depth < _MOST_CALLS else []:
                yield from walk(functions.get(name, ()), f"{path}/", depth + 1)

    return walk(definition.node, "", 0)


def random_operators(graph: Any) -> list[tuple[str, str]]:
    """Returns the path and type of what draws random numbers. An inactive Dropout is none of them."""
    return [(path, kind) for path, kind in operators(graph) if _RANDOM.match(kind)]


def assigning_operators(graph: Any) -> list[tuple[str, str]]:
    """Returns the path and type of what changes a variable or a table."""
    return [(path, kind) for path, kind in operators(graph) if _ASSIGNS.match(kind)]


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
