"""What every handler is made of: its registration, and a pen for the ONNX nodes in the place of a TensorFlow node."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from onnx import TensorProto
from tf2onnx import utils
from tf2onnx.onnx_opset.math import CumProd
from tf2onnx.onnx_opset.nn import CTCGreedyDecoder, get_shape_from_const_or_concat

from keras_pe.export.onnx.handlers import opsets

# tf2onnx's own, which some of ours go on with.
_OWN = {"CTCGreedyDecoder": CTCGreedyDecoder.version_11, "Cumprod": CumProd.version_10}

_AXES_ARE_INPUTS = 18  # since this opset, those of every reduction but ReduceSum

# By operator and the opset that tf2onnx writes: the function, and the least opset that is exported to.
HANDLERS: dict[tuple[str, int], tuple[Callable[..., None], int]] = {}

Operand = str | float | Sequence[int] | np.ndarray[Any, Any]
"""What a node takes: a tensor, a number of the type of the tensor beside it, or an int64 vector of sizes or axes."""


class Replacement:
    """A TensorFlow node that is being replaced: its inputs and attributes, and a pen for ONNX nodes.

    Tensors are passed by name, as tf2onnx does. tf2onnx's own graph and nodes stay in here.

    Attributes:
        operator: TensorFlow's type of the node.
        inputs: The names of what it takes.
        outputs: The names of what it returns.
        opset: The ONNX operator set that is written.
    """

    def __init__(self, graph: Any, node: Any) -> None:
        self._graph = graph
        self._node = node
        self.operator: str = node.type
        self.inputs: list[str] = list(node.input)
        self.outputs: list[str] = list(node.output)
        self.opset: int = graph.opset
        self._written: set[str] = set()

    def is_argument(self, tensor: str) -> bool:
        """Returns whether a tensor is an argument of the graph, as the counter of a loop is in the loop's body."""
        node = self._graph.get_node_by_output(tensor)
        return node is None or node.is_graph_input()

    def attribute(self, name: str, default: Any = None) -> Any:
        """Returns an attribute of the node, a text as a text."""
        value = self._node.get_attr_value(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def set_attribute(self, name: str, value: Any) -> None:
        """Changes an attribute of the node, for tf2onnx's own handler."""
        self._node.set_attr(name, value)

    def set_input(self, place: int, tensor: str) -> None:
        """Changes what the node takes, for tf2onnx's own handler."""
        self._graph.replace_input(self._node, self.inputs[place], tensor, place)

    def value(self, tensor: str) -> np.ndarray[Any, Any] | None:
        """Returns the value of a tensor that is a constant, as TensorFlow has it; None of any other."""
        node = self._graph.get_node_by_output(tensor)
        if node is None or not node.is_const():
            return None
        return np.asarray(node.get_tensor_value(as_list=False))

    def constant_value(self, tensor: str) -> np.ndarray[Any, Any]:
        """Returns the value of a tensor that must be a constant.

        Raises:
            ValueError: If it is none.
        """
        value = self.value(tensor)
        if value is None:
            raise ValueError(f"{self.operator} has an ONNX form only where {tensor!r} is a constant.")
        return value

    def shape(self, tensor: str) -> list[int] | None:
        """Returns the shape of a tensor, -1 where a size is not known; None where the rank is not."""
        shape: list[int] | None = self._graph.get_shape(tensor)
        return shape

    def known_shape(self, tensor: str) -> list[int]:
        """Returns the shape of a tensor whose rank must be known."""
        self.rank(tensor)
        return self.shape(tensor) or []

    def readers(self) -> list["Replacement"]:
        """Returns the nodes that take the first output."""
        return [Replacement(self._graph, node) for node in self._graph.find_output_consumers(self.outputs[0])]

    def declare(self, output: str, shape: list[int] | None, dtype: int) -> None:
        """Says what an output is from now on: its shape, and its element type as ONNX counts them."""
        self._graph.set_shape(output, shape)
        self._graph.set_dtype(output, dtype)

    def onnx_dtype(self, tensor: str) -> int:
        """Returns the element type of a tensor as ONNX counts them."""
        return int(self._graph.get_dtype(tensor))

    def emit(self, operator: str, *inputs: Operand, **attributes: Any) -> str:
        """Writes one ONNX node and returns the name of its first output."""
        return self.emit_all(operator, *inputs, **attributes)[0]

    def emit_all(
        self, operator: str, *inputs: Operand, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Writes one ONNX node and returns the names of its outputs."""
        names = [self._named(operand, inputs) for operand in inputs]
        options = {"attr": attributes, "output_count": outputs, "domain": domain, "name": self._name(operator)}
        return self._make(operator, names, **options)

    def emit_reduction(self, operator: str, tensor: str, axes: Iterable[int], keepdims: int = 1) -> str:
        """Writes a reduction, whose axes are an attribute or an input, and returns its result's name."""
        if self.opset >= _AXES_ARE_INPUTS or operator == "ReduceSum":
            return self.emit(operator, tensor, list(axes), keepdims=keepdims)
        return self.emit(operator, tensor, axes=list(axes), keepdims=keepdims)

    def emit_later(self, operator: str, *inputs: Operand, outputs: int = 1, **attributes: Any) -> list[str]:
        """Writes one node of an opset later than tf2onnx knows, and returns what it returns."""
        return self.emit_all(operator, *inputs, outputs=outputs, domain=opsets.LATER_DOMAIN, **attributes)

    def emit_joined(self, start: str, parts: str, rank: int) -> str:
        """Writes a loop over the last axis of texts, which joins them to the start, and returns its result's name.

        It is no Scan: in one, ONNX Runtime's StringConcat adds to the texts that its buffer held two steps before.

        Args:
            start: Texts of this rank.
            parts: Texts with one axis more.
            rank: The rank of the start and of the result.
        """
        body = self._graph.create_new_graph_with_same_config()
        body.parent_graph = self._graph
        step, go_on, state = (utils.make_name(name) for name in ("step", "go_on", "joined"))
        body.add_graph_input(step, TensorProto.INT64, [])
        body.add_graph_input(go_on, TensorProto.BOOL, [])
        body.add_graph_input(state, TensorProto.STRING, [-1] * rank)
        part = body.make_node("Gather", [parts, step], attr={"axis": -1}).output[0]
        joined = body.make_node("StringConcat", [state, part], domain=opsets.LATER_DOMAIN).output[0]
        body.add_graph_output(body.make_node("Identity", [go_on]).output[0], TensorProto.BOOL, [])
        body.add_graph_output(joined, TensorProto.STRING, [-1] * rank)
        count = self.emit("Gather", self.emit("Shape", parts), -1)
        inputs = [count, self.constant(True, "bool"), start]
        return self._make("Loop", inputs, branches={"body": body})[0]

    def _named(self, operand: Operand, beside: Sequence[Operand]) -> str:
        """Returns the name of a tensor, or of a constant that is written."""
        if isinstance(operand, str):
            return operand
        if isinstance(operand, int | float):
            return self.constant_like(operand, [each for each in beside if isinstance(each, str) and each][-1])
        return self.integers(*operand)

    def _make(self, operator: str, inputs: list[str], **options: Any) -> list[str]:
        outputs = list(self._graph.make_node(operator, inputs, **options).output)
        self._written.update(outputs)
        return outputs

    def _name(self, operator: str) -> str:
        """Returns a name for a node in the scope of the TensorFlow node, which is that of the layer."""
        scope = self._node.name.rpartition("/")[0]
        return str(utils.make_name(f"{scope}/{operator}" if scope else operator))

    def constant(self, value: Any, dtype: Any) -> str:
        """Writes a constant and returns its name."""
        return str(self._graph.make_const(utils.make_name("const"), np.array(value, dtype)).output[0])

    def constant_like(self, value: Any, tensor: str) -> str:
        """Writes a constant of the element type of a tensor and returns its name."""
        return self.constant(value, self.numpy_dtype(tensor))

    def integers(self, *values: int) -> str:
        """Writes an int64 vector, as shapes and axes are, and returns its name."""
        return self.constant(values, "int64")

    def cast(self, tensor: str, dtype: Any) -> str:
        """Casts to a NumPy dtype, unless that is what the tensor has."""
        kind = utils.map_numpy_to_onnx_dtype(np.dtype(dtype))
        return tensor if self._graph.get_dtype(tensor) == kind else self.emit("Cast", tensor, to=kind)

    def cast_like_output(self, tensor: str, output: int = 0) -> str:
        """Casts to the element type that the TensorFlow node returns."""
        return self.emit("Cast", tensor, to=self.onnx_dtype(self.outputs[output]))

    def numpy_dtype(self, tensor: str) -> np.dtype[Any]:
        """Returns the element type of a tensor."""
        dtype: np.dtype[Any] = np.dtype(utils.map_onnx_to_numpy_type(self.onnx_dtype(tensor)))
        return dtype

    def known_sizes(self, tensor: str) -> list[int] | None:
        """Returns the entries of a vector of sizes that is a constant or put together of them; the first may be -1."""
        sizes: list[int] | None = get_shape_from_const_or_concat(self._graph, self._graph.get_node_by_output(tensor))
        return sizes

    def leave_to_tf2onnx(self) -> None:
        """Has tf2onnx's own handler replace the node, as it is now."""
        _OWN[self.operator](self._graph, self._node)

    def rank(self, tensor: str) -> int:
        """Returns the rank of a tensor, which every handler that asks for it needs to be known."""
        rank = self._graph.get_rank(tensor)
        if rank is None:
            raise ValueError(f"{self.operator} of a tensor of unknown rank has no ONNX form.")
        return int(rank)

    def finish(self, *results: str) -> None:
        """Puts the results in the place of the TensorFlow node, under its outputs' names."""
        graph, node = self._graph, self._node
        outputs, shapes, dtypes = list(node.output), node.output_shapes, node.output_dtypes
        graph.remove_node(node.name)
        for result, output, shape, dtype in zip(results, outputs, shapes, dtypes, strict=True):
            if result not in self._written or results.count(result) > 1:
                # A pass drops it again, and the name with it.
                graph.make_node("Identity", [result], outputs=[output], shapes=[shape], dtypes=[dtype])
                continue
            maker = graph.get_node_by_output(result)
            graph.replace_all_inputs(result, output)
            maker.output = [output if each == result else each for each in maker.output]
            self.declare(output, shape, dtype)


Handler = TypeVar("Handler", bound=Callable[..., str | Sequence[str] | None])


def handler(
    *operators: str,
    since: int = opsets.WRITTEN[0],
    until: int = opsets.WRITTEN[-1],
    is_refused_before: bool = False,
    exported_since: int = opsets.EXPORTED[0],
) -> Callable[[Handler], Handler]:
    """Registers a function as the handler of TensorFlow operators, from one opset up to another, both included.

    It takes the operator's inputs and returns what stands for its outputs, nothing if it leaves that to tf2onnx. It is
    registered at each opset by itself, because tf2onnx lets its own handler of a higher one win otherwise.

    Args:
        operators: TensorFlow's.
        since: The first opset that it is valid for.
        until: The last.
        is_refused_before: Whether tf2onnx' own handler of earlier opsets is wrong.
        exported_since: The least opset to export to, where it writes operators that tf2onnx does not know.
    """

    def register(function: Handler) -> Handler:
        def convert(graph: Any, node: Any, **_: Any) -> None:
            ctx = Replacement(graph, node)
            results = function(ctx, *ctx.inputs)
            if results is not None:
                ctx.finish(*([results] if isinstance(results, str) else results))

        places = {(operator, opset) for operator in operators for opset in range(since, until + 1)}
        HANDLERS.update(dict.fromkeys(places, (convert, exported_since)))
        return function

    if is_refused_before:
        handler(*operators, until=since - 1)(partial(_refuse, since))
    return register


def _refuse(since: int, ctx: Replacement, *inputs: str) -> None:
    raise ValueError(f"{ctx.operator} needs opset {since}.")
