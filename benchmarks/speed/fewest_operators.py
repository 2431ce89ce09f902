"""The fewest operators that turn queries from a start on, written by hand in ONNX: the floor of a decoding step.

Each operator of a graph takes ONNX Runtime a third of a microsecond, whatever it computes, and a step computes little.
So these are written for few operators, at the price of their tables, of longer sequences or of what they promise.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_pe.rotations.composed import LIMIT, MIDDLES, UNITS, exact_rotations
from keras_pe.signal.rope_scalings import rope_timescales

HEADS = (32, 128)
Constants = dict[str, npt.NDArray[Any]]
Nodes = tuple[tuple[str, str, str, dict[str, Any]], ...]  # operator, inputs, outputs, attributes


class Graph(NamedTuple):
    """A graph of queries `x` and a `start`, both of which it is given.

    Attributes:
        name: In the results and the tables.
        nodes: What it computes.
        constants: Makes what it holds.
        reach: The positions that it turns by, from the first to the one after the last.
    """

    name: str
    nodes: Nodes
    constants: Callable[[], Constants]
    reach: tuple[int, int] = (-LIMIT, LIMIT)


def written(graph: Graph) -> bytes:
    """Returns the file of a graph."""
    from onnx import TensorProto, checker, helper, numpy_helper

    nodes = [helper.make_node(kind, args.split(), outs.split(), **given) for kind, args, outs, given in graph.nodes]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length", *HEADS]) for name in "xy")
    start = helper.make_tensor_value_info("start", TensorProto.INT32, [])
    stored = [numpy_helper.from_array(value, name) for name, value in graph.constants().items()]
    whole = helper.make_graph(nodes, "turned", [x, start], [y], stored)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    checker.check_model(model)
    return bytes(model.SerializeToString())


def _rows(positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Returns what a turn is multiplied by, and what makes one of two: `(positions, 2, 1, 2 * channels)`.

    The first of two rows are cosines and sines as the channels take them, the second those of a quarter turn more.
    """
    scales = rope_timescales("default", channels=HEADS[1]).timescales
    sin, cos = np.split(exact_rotations(positions, scales), 2, axis=-1)
    rows = [np.concatenate(each, axis=-1) for each in ((cos, cos, -sin, sin), (-sin, -sin, -cos, cos))]
    return np.stack(rows, axis=1)[:, :, np.newaxis].astype("float32")


def _factors(positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Returns the cosine, then the sine, of each column of `_rows`, with which those are multiplied and added."""
    scales = rope_timescales("default", channels=HEADS[1]).timescales
    sin, cos = np.split(exact_rotations(positions, scales), 2, axis=-1)
    return np.stack([np.tile(cos, 4), np.tile(sin, 4)], axis=1)[:, :, np.newaxis].astype("float32")


_COUNT: Constants = {"zero": np.array(0, "int32"), "one": np.array(1, "int32")}
_POSITIONS: Nodes = (
    ("Shape", "x", "shape", {"start": 1, "end": 2}),
    ("Squeeze", "shape", "size", {}),
    ("Cast", "size", "length", {"to": 6}),
    ("Range", "zero length one", "counted", {}),
    ("Add", "counted start", "position", {}),
)
_TURN: Nodes = (
    ("Split", "x", "first second", {"axis": -1, "num_outputs": 2}),
    ("Concat", "second first", "partners", {"axis": -1}),
    ("Mul", "x cos", "straight", {}),
    ("Mul", "partners sin", "across", {}),
    ("Add", "straight across", "y", {}),
)
_COMPOSED: Nodes = (
    ("Gather", "units unit", "unit_rows", {}),
    ("Gather", "blocks block", "block_rows", {}),
    ("Mul", "unit_rows block_rows", "products", {}),
    ("ReduceSum", "products axis", "rows", {"keepdims": 0}),
    ("Split", "rows", "cos sin", {"axis": -1, "num_outputs": 2}),
)


def _turn_alone() -> Constants:
    cos, sin = np.split(_rows(np.array([5]))[:, 0], 2, axis=-1)
    return {"cos": cos, "sin": sin}


_LARGE = 4096  # units of the graphs of one composition


def _one_composition() -> Constants:
    blocks = np.arange(-LIMIT, LIMIT, _LARGE)
    return {
        **_COUNT,
        **{"offset": np.array(LIMIT, "int32"), "divisor": np.array(_LARGE, "int32"), "axis": np.array([1])},
        **{"units": _rows(np.arange(_LARGE)), "blocks": _factors(blocks)},
    }


def _one_composition_checked() -> Constants:
    return {
        **_one_composition(),
        **{"reach": np.array(2 * LIMIT, "int32"), "invalid": np.array(2 * LIMIT // _LARGE, "int32")},
    }


_OFFSET: Nodes = (("Add", "position offset", "number", {}),)
_UNIT: Nodes = (("Mod", "number divisor", "unit", {}),)
_BLOCK: Nodes = (("Div", "number divisor", "block", {}),)
_CHECKED_BLOCK: Nodes = (
    ("Mod", "number reach", "within", {}),
    ("Equal", "number within", "is_within", {}),
    ("Div", "number divisor", "some_block", {}),
    ("Where", "is_within some_block invalid", "block", {}),
)

_DIGITS: Nodes = (
    ("Add", "position offsets", "numbers", {}),
    ("Div", "numbers divisors", "quotients", {}),
    ("Mod", "quotients bases", "digits", {}),
    ("Add", "digits firsts", "places", {}),
    ("Gather", "table places", "found", {}),
    ("Split", "found", "unit_rows middle_rows top_rows", {"axis": 0, "num_outputs": 3}),
    ("Mul", "top_rows middle_rows", "products", {}),
    ("ReduceSum", "products of_blocks", "block_rows", {"keepdims": 1}),
    ("Mul", "unit_rows block_rows", "all_products", {}),
    ("ReduceSum", "all_products of_all", "rows", {"keepdims": 0}),
    ("Split", "rows", "cos sin", {"axis": 1, "num_outputs": 2}),
)


def _two_compositions() -> Constants:
    """Returns the rows of all digits in one table: `(rows, 2, 2, channels)`, of NaN beside those of the top digit."""
    whole = UNITS * MIDDLES
    rows = _rows(np.arange(UNITS)).reshape(UNITS, 2, 2, -1)
    factors = [_factors(np.arange(MIDDLES) * UNITS), _factors(np.arange(-LIMIT, LIMIT, whole))]
    middles, tops = (each.reshape(len(each), 2, 2, -1) for each in factors)
    cos, sin = middles[:, 0, 0], middles[:, 1, 0]
    middles = np.stack([np.stack([cos, sin], 1), np.stack([-sin, cos], 1)], 1)
    nothing = np.full((1, *tops.shape[1:]), np.nan, "float32")
    column = [np.array(each, "int32")[:, np.newaxis] for each in ([LIMIT, LIMIT, LIMIT + whole], [1, UNITS, whole])]
    bases, firsts = ([UNITS, MIDDLES, 2**15], [0, UNITS, UNITS + MIDDLES])
    return {
        **_COUNT,
        **{"offsets": column[0], "divisors": column[1], "of_blocks": np.array([2]), "of_all": np.array([0, 3])},
        **{"bases": np.array(bases, "int32")[:, np.newaxis], "firsts": np.array(firsts, "int32")[:, np.newaxis]},
        "table": np.concatenate([np.swapaxes(rows, 1, 2), middles, nothing, tops, nothing]),
    }


GRAPHS = (
    Graph("turn alone, by hand", _TURN, _turn_alone, (5, 6)),
    Graph(
        "one composition, no check, by hand",
        (*_POSITIONS, *_OFFSET, *_UNIT, *_BLOCK, *_COMPOSED, *_TURN),
        _one_composition,
    ),
    Graph(
        "one composition, by hand",
        (*_POSITIONS, *_OFFSET, *_UNIT, *_CHECKED_BLOCK, *_COMPOSED, *_TURN),
        _one_composition_checked,
    ),
    Graph("two compositions, by hand", (*_POSITIONS, *_DIGITS, *_TURN), _two_compositions),
)
