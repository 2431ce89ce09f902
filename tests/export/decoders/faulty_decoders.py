"""Faults of positions, masks and caches, planted in the ONNX file of a small decoder with a growing cache."""

from collections.abc import Callable, Mapping
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export.results import Cause

MASK = "attention_mask"


class EditedGraph:
    """The graph of a file. New nodes may stand in any order, and `save` sorts them.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.proto = onnx.load(path)
        self.graph = self.proto.graph
        self._own = list(self.graph.node)

    def constant(self, value: Any) -> str:
        """Returns the name of a new constant."""
        name = f"planted_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
        return name

    def add(self, operator: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        """Returns the output of a new node, or its outputs if there are several."""
        names = [f"planted_node_{len(self.graph.node)}_{place}" for place in range(count)]
        self.graph.node.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0] if count == 1 else names

    def slice(self, tensor: str, start: int, end: int, axis: int, step: int = 1) -> str:
        """Returns a part of a tensor along an axis."""
        return str(self.add("Slice", tensor, *(self.constant([each]) for each in (start, end, axis, step))))

    def redirect(self, old: str, new: str, operators: str = "") -> None:
        """Lets nodes of the file read another tensor; those of some operators, or all."""
        for node in self._own:
            for place, name in enumerate(node.input):
                if name == old and (not operators or node.op_type in operators):
                    node.input[place] = new

    def first(self, operator: str, source: str | None = None) -> Any:
        """Returns the first node of an operator in the file that reads a tensor, or the first of all."""
        return next(node for node in self._own if node.op_type == operator and source in (None, *node.input))

    @property
    def caches(self) -> list[str]:
        """The inputs of the cache: the keys and the values of each layer in turn."""
        return [each.name for each in self.graph.input if each.name.startswith("past_key_values")]

    @property
    def positions(self) -> str:
        """The positions of all columns, `[batch, total]`."""
        return str(self.first("Max").output[0])

    @property
    def own_positions(self) -> str:
        """The positions of the tokens of a call, `[batch, length]`."""
        return str(self.first("Gather", self.positions).output[0])

    @property
    def is_token(self) -> str:
        """Whether a column is a token, `[batch, total]`."""
        return str(self.first("Greater").output[0])

    def count_past(self) -> str:
        """Returns the number of rows in the cache, `[1]`."""
        return str(self.add("Shape", self.caches[0], start=2, end=3))

    def save(self, path: Path) -> None:
        """Writes the file with its nodes in an order in which they can run."""
        nodes = list(self.graph.node)
        makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
        order = TopologicalSorter(
            {place: {makers[name] for name in node.input if name in makers} for place, node in enumerate(nodes)}
        )
        sorted_nodes = [nodes[place] for place in order.static_order()]
        del self.graph.node[:]
        self.graph.node.extend(sorted_nodes)
        onnx.save(self.proto, path)


def _begin_at_0(operator: str) -> Callable[[EditedGraph], None]:
    """Returns a change: the nodes of an operator get positions that begin at 0 in each call."""

    def change(graph: EditedGraph) -> None:
        own = graph.own_positions
        graph.redirect(own, graph.add("Sub", own, graph.slice(own, 0, 1, 1)), operator)

    return change


def _count_padding(graph: EditedGraph) -> None:
    start = graph.add("Squeeze", graph.count_past(), graph.constant([0]))
    graph.redirect(graph.own_positions, _columns(graph, start), "Gather")


def _measure_with_padding(graph: EditedGraph) -> None:
    """Lets the distances of ALiBi count padding."""
    graph.redirect(graph.positions, _columns(graph, graph.constant(0)), "Sub")


def _columns(graph: EditedGraph, start: str) -> Any:
    """Returns the numbers of the columns from one on, `[1, length]`."""
    end = graph.add("Squeeze", graph.add("Shape", MASK, start=1, end=2), graph.constant([0]))
    columns = graph.add("Range", start, end, graph.constant(1))
    return graph.add("Unsqueeze", graph.add("Cast", columns, to=TensorProto.INT32), graph.constant([0]))


def _see_padding(graph: EditedGraph) -> None:
    graph.redirect(graph.is_token, graph.add("Or", graph.is_token, graph.add("Not", graph.is_token)))


def _see_later(graph: EditedGraph) -> None:
    causal = graph.first("LessOrEqual").output[0]
    graph.redirect(causal, graph.add("Or", causal, graph.add("Not", causal)))


def _exchange_all(graph: EditedGraph) -> None:
    """Lets each layer read keys as values, and values as keys."""
    for key, value in zip(graph.caches[::2], graph.caches[1::2], strict=True):
        both = graph.add("Identity", key), graph.add("Identity", value)
        graph.redirect(key, both[1])
        graph.redirect(value, both[0])


def ignore_mask(graph: EditedGraph) -> None:
    """Lets padding count as tokens everywhere."""
    graph.redirect(MASK, graph.add("Add", graph.add("Sub", MASK, MASK), graph.constant(1)))


def _hide_newest(graph: EditedGraph) -> None:
    end = graph.add("Squeeze", graph.add("Shape", MASK, start=1, end=2), graph.constant([0]))
    columns = graph.add("Range", graph.constant(0), end, graph.constant(1))
    newest = graph.add("Equal", columns, graph.add("Sub", graph.count_past(), graph.constant([1])))
    graph.redirect(graph.is_token, graph.add("And", graph.is_token, graph.add("Not", newest)))


def _shift(steps: int) -> Callable[[EditedGraph], None]:
    """Returns a change: the rows of the whole cache are read some steps later, and the first rows are zero."""

    def change(graph: EditedGraph) -> None:
        for name in graph.caches:
            first = graph.slice(name, 0, steps, 2)
            zeros = graph.add("Sub", first, first)
            graph.redirect(name, graph.add("Concat", zeros, graph.slice(name, 0, -steps, 2), axis=2))

    return change


def _reverse_rows(graph: EditedGraph) -> None:
    for name in graph.caches:
        graph.redirect(name, graph.slice(name, -1, -(2**62), 0, -1))


def exchange(graph: EditedGraph) -> None:
    """Lets the last layer read keys as values, and values as keys."""
    key, value = graph.caches[-2:]
    both = graph.add("Identity", key), graph.add("Identity", value)
    graph.redirect(key, both[1])
    graph.redirect(value, both[0])


def _widen_window(graph: EditedGraph) -> None:
    constants = {each.name: each for each in graph.graph.initializer}
    compared = graph.first("Less").input[1]
    constants[compared].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(constants[compared]) + 1, compared))


def _rotate_again(graph: EditedGraph) -> None:
    """Rotates the keys in the cache again. Each call returns them."""
    keys = graph.caches[::2]
    (size,) = {each.type.tensor_type.shape.dim[3].dim_value for each in graph.graph.input if each.name in keys}
    rates = 10_000.0 ** (-2 * np.arange(size // 2) / size)
    earlier = graph.add("Slice", graph.positions, graph.constant([0]), graph.count_past(), graph.constant([1]))
    column = graph.add("Unsqueeze", graph.add("Cast", earlier, to=TensorProto.FLOAT), graph.constant([1, 3]))
    angles = graph.add("Mul", column, graph.constant(np.tile(rates, 2).astype("float32")))
    cosines, sines = graph.add("Cos", angles), graph.add("Sin", angles)
    for name in keys:
        one, two = graph.add("Split", name, count=2, axis=3, num_outputs=2)
        turned = graph.add("Concat", graph.add("Neg", two), one, axis=3)
        parts = graph.add("Mul", name, cosines), graph.add("Mul", turned, sines)
        graph.redirect(name, graph.add("Add", *parts))


def _store_in_16_bits(graph: EditedGraph) -> None:
    for output in graph.graph.output:
        if output.name.startswith("present"):
            maker = next(node for node in graph.graph.node if output.name in node.output)
            maker.output[list(maker.output).index(output.name)] = wide = f"{output.name}_wide"
            graph.redirect(output.name, wide)
            short = graph.add("Cast", wide, to=TensorProto.FLOAT16)
            graph.graph.node.append(helper.make_node("Cast", [short], [output.name], to=TensorProto.FLOAT))


LAST_ROW = 6


def _clamp(graph: EditedGraph) -> None:
    own = graph.own_positions
    graph.redirect(own, graph.add("Min", own, graph.constant(np.int32(LAST_ROW))), "Gather")


FAULTS: Mapping[str, tuple[str, Cause, Callable[[EditedGraph], None]]] = {
    "offset forgotten": ("GPT2", Cause.START_INDEX_OFF, _begin_at_0("Gather")),
    "rotation begun at 0": ("Llama", Cause.START_INDEX_OFF, _begin_at_0("Reshape")),
    "rotation of cached keys doubled": ("Llama", Cause.START_INDEX_OFF, _rotate_again),
    "padding counted as positions": ("GPT2", Cause.START_INDEX_OFF, _count_padding),
    "padding counted in distances": ("Bloom", Cause.START_INDEX_OFF, _measure_with_padding),
    "padding not masked": ("GPT2", Cause.DROPPED_MASK, _see_padding),
    "mask ignored": ("GPT2", Cause.DROPPED_MASK, ignore_mask),
    "causal mask dropped": ("GPT2", Cause.DROPPED_CAUSAL_MASK, _see_later),
    "last row dropped": ("GPT2", Cause.DROPPED_INPUT, _hide_newest),
    "cache shifted by 1": ("GPT2", Cause.SHIFTED_STATE, _shift(1)),
    "cache shifted by 2": ("Llama", Cause.SHIFTED_STATE, _shift(2)),
    "cache of another row": ("GPT2", Cause.STATE_OF_ANOTHER_ROW, _reverse_rows),
    "keys and values exchanged": ("GPT2", Cause.EXCHANGED_STATES, exchange),
    "keys and values of each layer exchanged": ("GPT2", Cause.EXCHANGED_STATES, _exchange_all),
    "window off by one": ("Mistral", Cause.attribute("window"), _widen_window),
    "16-bit cache beyond its range": ("GPT2", Cause.HALF_PRECISION, _store_in_16_bits),
    "table clamped": ("GPT2", Cause.CLAMPED_TABLE, _clamp),
}
"""The family, the cause and the change of each fault."""
