"""The rule that attends to a shared cache in place, by ONNX Runtime's GroupQueryAttention, if a call has one token.

The rows in use are the first rows of the cache. ONNX's operators copy these rows before they multiply them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx_ir as ir

from keras_pe.export.onnx.attention_masks import MASKED
from keras_pe.export.onnx.finishing.graph_edits import (
    Node,
    array,
    attribute,
    constant,
    count_uses,
    insert,
    number,
    order_of,
    producer,
    read_instead,
    remove,
    sizes_constant,
    stand_for,
)
from keras_pe.export.onnx.finishing.graph_edits import replace as replace_value
from keras_pe.export.onnx.finishing.one_token import Branch, Tokens, copy_chain
from keras_pe.export.onnx.finishing.rules import NoMatchError, rule
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

_ROWS = 2  # the axis of the rows of a cache, `[batch, heads, rows, channels]`
_MULTIPLE = 8  # ONNX Runtime 1.32 refuses other numbers of channels
_FILL = -1e9  # larger numbers do not mask, see `attention_scores`
_LEAST = -6e4  # a mask in float16 is finite, so that a fully masked row is not NaN
_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)


@dataclass(frozen=True)
class _Scores:
    """A product of queries and keys, times a number, plus masks.

    Attributes:
        nodes: The nodes that compute the scores, the product first.
        scale: The number.
        masks: The tensors to add, each with a factor; a condition, which hides a score where it is false, has None.
    """

    nodes: tuple[Node, ...]
    scale: float = 1.0
    masks: tuple[tuple[ir.Value, float | None], ...] = ()

    @classmethod
    def of(cls, value: ir.Value) -> "_Scores | None":
        """Returns the scores that a value is; None for another value."""
        node = producer(value, "Add", "Cast", "MatMul", "Mul", "Where")
        if node is None or node.op_type == "MatMul":
            return node and cls((node,))
        if node.op_type == "Cast":  # the softmax of a model in float16 is in float32
            found = cls.of(node.inputs[0])
            return found and replace(found, nodes=(*found.nodes, node))
        first, second = node.inputs[-2:]
        if node.op_type == "Where":
            found, fill = cls.of(first), number(second)
            return found.add_mask(node, node.inputs[0], None) if found and fill is not None and fill <= _FILL else None
        for scores, other in ((first, second), (second, first)):
            if (found := cls.of(scores)) is not None:
                factor = number(other)
                if node.op_type == "Add":
                    return found.add_mask(node, other, 1.0)
                return found.times(node, float(factor)) if factor is not None and factor > 0 else None
        return None

    def write_mask(self, place: Node, dtype: ir.DataType) -> ir.Value | None:
        """Writes the sum of the masks before a node, in a type; returns None without a mask."""
        total: ir.Value | None = None
        for mask, factor in self.masks:
            own = mask
            if factor is None:
                own = insert(place, "Where", [mask, *(constant(place.graph, np.float32(x)) for x in (0, MASKED))])
            elif factor != 1:
                own = insert(place, "Mul", [mask, constant(place.graph, np.float32(factor))])
            total = own if total is None else insert(place, "Add", [total, own])
        if total is None or dtype == ir.DataType.FLOAT:
            return total
        return insert(
            place, "Cast", [insert(place, "Max", [total, constant(place.graph, np.float32(_LEAST))])], to=dtype
        )

    def add_mask(self, node: Node, mask: ir.Value, factor: float | None) -> "_Scores":
        return replace(self, nodes=(*self.nodes, node), masks=(*self.masks, (mask, factor)))

    def times(self, node: Node, factor: float) -> "_Scores":
        masks = tuple((mask, own and own * factor) for mask, own in self.masks)
        return _Scores((*self.nodes, node), self.scale * factor, masks)


@dataclass(frozen=True)
class _Attention:
    """Attention to a shared cache.

    Attributes:
        scores: The scores.
        keys: The TensorScatter that writes the keys of a call.
        values: The TensorScatter that writes the values.
        sees: A tensor that is 0 for fully masked rows, which the weights are multiplied by; None without one.
        heads: The number of heads of keys.
        groups: The number of heads of queries for each head of keys.
        channels: The number of channels of a head.
    """

    scores: _Scores
    keys: Node
    values: Node
    sees: ir.Value | None
    heads: int
    groups: int
    channels: int


@rule("GroupQueryAttention", "MatMul")
def attend_in_place(node: Node, sizes: KnownSizes) -> None:
    """Writes an `If` with GroupQueryAttention for one token, and with the nodes of the graph for several tokens.

    GroupQueryAttention refuses several tokens after earlier ones in a batch of several texts.
    """
    values, cast = _rows_in_use(node.inputs[1]), producer(node.inputs[0], "Cast")
    weights = cast.inputs[0] if cast else node.inputs[0]
    scaling = producer(weights, "Mul")
    softmax = producer(scaling.inputs[0] if scaling else weights, "Softmax")
    # Only the scores of a cache are searched: the search doubles with each Add of other graphs.
    scores = _Scores.of(softmax.inputs[0]) if values and softmax else None
    keys = _rows_in_use(scores.nodes[0].inputs[1]) if scores else None
    if values is None or scores is None or keys is None:
        return
    chain = [*scores.nodes, softmax, *filter(None, (scaling, cast)), node]
    if any(count_uses(each.outputs[0]) > 1 for each in chain[:-1]):
        raise NoMatchError("its scores are returned")
    seeing = sizes.shape(scaling.inputs[1]) if scaling else None
    if scaling and (seeing is None or len(seeing) != 4 or seeing[1] != 1 or seeing[3] != 1):
        raise NoMatchError("its weights are multiplied by other factors than those of rows")
    heads, groups, channels = _heads(scores, keys[0], values[0], sizes)
    found = _Attention(scores, keys[0], values[0], scaling and scaling.inputs[1], heads, groups, channels)
    _write(found, {*keys, *values, *chain}, node, sizes)


def _rows_in_use(value: ir.Value) -> list[Node] | None:
    """Returns the TensorScatter into a cache, and the nodes that cut its rows in use and transpose them.

    Returns None for another value, and if other nodes read the cache too: they would read the results of the `If`.
    """
    transpose = producer(value, "Transpose")
    if transpose is not None and order_of(transpose) == [0, 1, 3, 2]:
        value = transpose.inputs[0]
    cut = producer(value, "Slice")
    write = producer(cut.inputs[0], "TensorScatter") if cut else None
    if cut is None or write is None or attribute(write, "axis", -2) not in (_ROWS, _ROWS - 4):
        return None
    start, _, axes, *steps = (array(each) for each in cut.inputs[1:])
    is_first = all(
        each is not None and (each == wanted).all() for each, wanted in ((start, 0), *((x, 1) for x in steps))
    )
    cache, written = write.inputs[0], write.outputs[0]
    is_of_model = cache.is_graph_input() and written.is_graph_output()
    are_read_once = len(written.uses()) == len(cut.outputs[0].uses()) == 1
    is_cache = is_first and is_of_model and are_read_once and axes is not None and _ROWS in axes
    return [write, cut, *([transpose] if transpose else [])] if is_cache else None


def _heads(scores: _Scores, keys: Node, values: Node, sizes: KnownSizes) -> tuple[int, int, int]:
    """Returns the heads of keys, the heads of queries for each of them, and the channels of a head.

    Raises:
        NoMatchError: If the operator cannot compute attention to two caches.
    """
    query = scores.nodes[0].inputs[0]
    if {value.dtype for value in (query, keys.inputs[0], values.inputs[0])} not in [{each} for each in _TYPES]:
        raise NoMatchError("it computes in another type than float32 or float16")
    (_, heads, _, channels), other = (_known(sizes.shape(each.inputs[0])) for each in (keys, values))
    width = _query_width(query, sizes)
    if (heads, channels) != other[1::2] or not heads * channels or width % (heads * channels):
        raise NoMatchError("its queries, keys and values have different or unknown heads and channels")
    if channels % _MULTIPLE:
        raise NoMatchError(f"its channels are not a multiple of {_MULTIPLE}")
    if keys.inputs[2] is not values.inputs[2]:
        raise NoMatchError("its keys and values are not written to the same rows")
    masks = [sizes.shape(mask) or () for mask, _ in scores.masks]
    if any(len(own) != 4 or own[1] not in (1, heads) or own[3] == 1 for own in masks):
        raise NoMatchError("its mask or bias has other axes")
    return heads, width // (heads * channels), channels


def _known(shape: Sequence[Any] | None) -> tuple[int, ...]:
    """Returns the four sizes of an array, 0 for an unknown size."""
    return tuple(size if isinstance(size, int) else 0 for size in shape or [0] * 4)


def _query_width(query: ir.Value, sizes: KnownSizes) -> int:
    """Returns the product of the heads and channels of queries, whose heads may have become rows."""
    widths = list[int]()
    value: ir.Value | None = query
    while value is not None:
        widths.append(math.prod(size for size in sizes.shape(value) or () if isinstance(size, int)))
        before = producer(value, "Reshape", "RotaryEmbedding", "Transpose")
        value = before and before.inputs[0]
    return max(widths)


def _write(found: _Attention, moved: set[Node], last: Node, sizes: KnownSizes) -> None:
    """Moves nodes into the branch for several tokens, and writes the branch for one token beside it.

    The branch for one token reads projections as they are: the nodes that split and join heads are in the other branch.

    Args:
        found: The attention.
        moved: The nodes that write the cache and compute the attention.
        last: The last of them.
        sizes: The sizes of the graph.
    """
    graph, (past_keys, keys, first), (past_values, values, _) = last.graph, found.keys.inputs, found.values.inputs
    heads, groups, product, dtype = found.heads, found.groups, found.scores.nodes[0], past_keys.dtype

    def shape(*numbers: int) -> ir.Value:
        return sizes_constant(graph, numbers)

    def for_each_head(value: ir.Value, columns: int, *wanted: int) -> ir.Value:
        """Returns the rows of the first token in an array `[batch, heads, groups * count, columns]`, reshaped."""
        rows = insert(last, "Slice", [value, shape(0), shape(groups), shape(_ROWS)])
        rows = insert(last, "Expand", [rows, shape(1, heads, groups, columns)])
        return insert(last, "Reshape", [rows, shape(*wanted)])

    tokens = Tokens(keys, sizes)
    place = insert(last, "Cast", [first], to=ir.DataType.INT32)  # the last row in use after a call with one token
    total = insert(last, "Add", [insert(last, "ReduceMax", [place], keepdims=0), constant(graph, np.int32(1))])
    is_step, mask = insert(last, "Equal", [tokens.count(last), shape(1)]), found.scores.write_mask(last, dtype)
    if mask is not None and groups > 1:
        mask = for_each_head(mask, 1, 0, heads * groups, 1, -1)

    readers = ((product.inputs[0], product), (keys, found.keys), (values, found.values))
    chains = [tokens.before(value) for value, _ in readers]
    joining = tokens.after(last.outputs[0])
    branch = Branch(last, dtype)
    rows = [
        chain[0].inputs[0] if chain else branch.add("Reshape", [value, shape(0, 1, -1)])
        for (value, _), chain in zip(readers, chains, strict=True)
    ]
    inputs = [*rows, past_keys, past_values, place, total, None, None, None, mask]
    options = {"num_heads": heads * groups, "kv_num_heads": heads, "scale": found.scores.scale}
    attended, *presents = branch.add("GroupQueryAttention", inputs, 3, **options)
    if found.sees is not None:
        sees = for_each_head(found.sees, found.channels, 0, 1, -1)
        sees = sees if dtype == found.sees.dtype else insert(last, "Cast", [sees], to=dtype)
        attended = branch.add("Mul", [attended, sees])
    if not joining:
        attended = branch.add("Reshape", [attended, shape(0, heads, groups, found.channels)])

    for (value, reader), chain in zip(readers, chains, strict=True):
        if chain:
            copies = copy_chain(chain, chain[0].inputs[0])
            read_instead(reader, value, copies[-1].outputs[0])
            moved |= {*copies}
    copies = copy_chain(joining, last.outputs[0])
    moved |= {*copies}
    final = [last, *copies][-1]
    returned = [final.outputs[0], found.keys.outputs[0], found.values.outputs[0]]
    results = [[last, *joining][-1].outputs[0], *returned[1:]]
    choice = ir.node("If", [is_step], num_outputs=len(results))
    choice.meta.update(last.meta)
    final.prepend(choice)
    for new, old in zip(choice.outputs, results, strict=True):
        new.type, new.shape = old.type, old.shape
    replace_value(results[0], choice.outputs[0])
    for node in reversed(joining):
        stand_for(node.outputs[0], choice.outputs[0])
        remove(node)
    for new, old in zip(choice.outputs[1:], results[1:], strict=True):
        new.name, old.name = old.name, None
        graph.outputs[:] = [new if output is old else output for output in graph.outputs]
    several = [node for node in graph if node in moved]
    graph.remove(several)
    step = ir.Graph([], [attended, *presents], nodes=branch.nodes, name="one_token")
    choice.attributes.add(ir.AttrGraph("then_branch", step))
    choice.attributes.add(ir.AttrGraph("else_branch", ir.Graph([], returned, nodes=several, name="several_tokens")))
