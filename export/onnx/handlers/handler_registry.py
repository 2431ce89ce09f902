"""The registration of handlers, and a writer of the ONNX nodes that replace a TensorFlow node."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from onnx import TensorProto
from tf2onnx import utils
from tf2onnx.onnx_opset.math import CumProd
from tf2onnx.onnx_opset.nn import CTCGreedyDecoder, get_shape_from_const_or_concat

from keras_pe.export.onnx.handlers import opsets

# Handlers of tf2onnx, to which some handlers of this package delegate.
_OWN = {"CTCGreedyDecoder": CTCGreedyDecoder.version_11, "Cumprod": CumProd.version_10}

_AXES_ARE_INPUTS = 18  # since this opset; ReduceSum has had them earlier

# The function and the least opset of an export, by operator and by the opset that tf2onnx writes.
HANDLERS: dict[tuple[str, int], tuple[Callable[..., None], int]] = {}

Operand = str | float | Sequence[int] | np.ndarray[Any, Any]
"""An input of a node: a tensor name, a number with the dtype of the tensor beside it, or an int64 vector."""


class Replacement:
    """A TensorFlow node during its replacement: its inputs and attributes, and methods that write ONNX nodes.

    Tensors are passed by name, as in tf2onnx. This class encapsulates the graph and the nodes of tf2onnx.

    Attributes:
        operator: TensorFlow's type of the node.
        inputs: The names of the node's inputs.
        outputs: The names of the node's outputs.
        opset: The ONNX operator set that tf2onnx writes.
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
        """Returns whether a tensor is an argument of the graph, such as the counter in the body of a loop."""
        node = self._graph.get_node_by_output(tensor)
        return node is None or node.is_graph_input()

    def attribute(self, name: str, default: Any = None) -> Any:
        """Returns an attribute of the node. Bytes are decoded."""
        value = self._node.get_attr_value(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def set_input(self, place: int, tensor: str) -> None:
        """Changes an input of the node, for tf2onnx's own handler."""
        self._graph.replace_input(self._node, self.inputs[place], tensor, place)

    def value(self, tensor: str) -> np.ndarray[Any, Any] | None:
        """Returns the value of a constant tensor; None if the tensor is not a constant."""
        node = self._graph.get_node_by_output(tensor)
        if node is None or not node.is_const():
            return None
        return np.asarray(node.get_tensor_value(as_list=False))

    def constant_value(self, tensor: str) -> np.ndarray[Any, Any]:
        """Returns the value of a tensor that must be a constant.

        Raises:
            ValueError: If the tensor is not a constant.
        """
        value = self.value(tensor)
        if value is None:
            raise ValueError(f"{self.operator} has an ONNX form only where {tensor!r} is a constant.")
        return value

    def shape(self, tensor: str) -> list[int] | None:
        """Returns the shape of a tensor, with -1 for unknown sizes; None if the rank is unknown."""
        shape: list[int] | None = self._graph.get_shape(tensor)
        return shape

    def known_shape(self, tensor: str) -> list[int]:
        """Returns the shape of a tensor whose rank must be known."""
        self.rank(tensor)
        return self.shape(tensor) or []

    def declare(self, output: str, shape: list[int] | None, dtype: int) -> None:
        """Declares the shape and the ONNX element type of an output."""
        self._graph.set_shape(output, shape)
        self._graph.set_dtype(output, dtype)

    def onnx_dtype(self, tensor: str) -> int:
        """Returns the ONNX element type of a tensor."""
        return int(self._graph.get_dtype(tensor))

    def emit(self, operator: str, *inputs: Operand, **attributes: Any) -> str:
        """Writes one ONNX node and returns the name of its first output."""
        return self.emit_all(operator, *inputs, **attributes)[0]

    def emit_all(
        self, operator: str, *inputs: Operand, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Writes one ONNX node and returns the names of its outputs."""
        names = [self._operand_name(operand, inputs) for operand in inputs]
        options = {"attr": attributes, "output_count": outputs, "domain": domain, "name": self._name(operator)}
        return self._make(operator, names, **options)

    def emit_reduction(self, operator: str, tensor: str, axes: Iterable[int], keepdims: int = 1) -> str:
        """Writes a reduction, and returns the name of its result. The axes are an attribute or an input by opset."""
        if self.opset >= _AXES_ARE_INPUTS or operator == "ReduceSum":
            return self.emit(operator, tensor, list(axes), keepdims=keepdims)
        return self.emit(operator, tensor, axes=list(axes), keepdims=keepdims)

    def emit_later(self, operator: str, *inputs: Operand, outputs: int = 1, **attributes: Any) -> list[str]:
        """Writes one node of an opset that tf2onnx does not support, and returns the names of its outputs."""
        return self.emit_all(operator, *inputs, outputs=outputs, domain=opsets.LATER_DOMAIN, **attributes)

    def emit_joined(self, start: str, parts: str, rank: int) -> str:
        """Writes a loop that appends texts along the last axis to `start`, and returns the name of its result.

        A Scan would be wrong: in a Scan, ONNX Runtime's StringConcat appends to stale texts of an earlier step.

        Args:
            start: Texts of this rank.
            parts: Texts with one more axis.
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

    def _operand_name(self, operand: Operand, beside: Sequence[Operand]) -> str:
        """Returns the name of an operand. A constant is written for a number or a vector."""
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
        """Returns a new node name in the scope of the TensorFlow node, which is the scope of the layer."""
        scope = self._node.name.rpartition("/")[0]
        return str(utils.make_name(f"{scope}/{operator}" if scope else operator))

    def constant(self, value: Any, dtype: Any) -> str:
        """Writes a constant and returns its name."""
        return str(self._graph.make_const(utils.make_name("const"), np.array(value, dtype)).output[0])

    def constant_like(self, value: Any, tensor: str) -> str:
        """Writes a constant with the element type of a tensor and returns its name."""
        return self.constant(value, self.numpy_dtype(tensor))

    def integers(self, *values: int) -> str:
        """Writes an int64 vector, for shapes and axes, and returns its name."""
        return self.constant(values, "int64")

    def cast(self, tensor: str, dtype: Any) -> str:
        """Casts a tensor to a NumPy dtype, unless the tensor has this dtype already."""
        kind = utils.map_numpy_to_onnx_dtype(np.dtype(dtype))
        return tensor if self._graph.get_dtype(tensor) == kind else self.emit("Cast", tensor, to=kind)

    def cast_like_output(self, tensor: str, output: int = 0) -> str:
        """Casts a tensor to the element type of an output of the TensorFlow node."""
        return self.emit("Cast", tensor, to=self.onnx_dtype(self.outputs[output]))

    def numpy_dtype(self, tensor: str) -> np.dtype[Any]:
        """Returns the element type of a tensor."""
        dtype: np.dtype[Any] = np.dtype(utils.map_onnx_to_numpy_type(self.onnx_dtype(tensor)))
        return dtype

    def known_sizes(self, tensor: str) -> list[int] | None:
        """Returns the entries of a vector of constants; None if they are unknown. The first entry may be -1."""
        sizes: list[int] | None = get_shape_from_const_or_concat(self._graph, self._graph.get_node_by_output(tensor))
        return sizes

    def leave_to_tf2onnx(self) -> None:
        """Replaces the node in its present state by tf2onnx's own handler."""
        _OWN[self.operator](self._graph, self._node)

    def rank(self, tensor: str) -> int:
        """Returns the rank of a tensor; raises ValueError if the rank is unknown."""
        rank = self._graph.get_rank(tensor)
        if rank is None:
            raise ValueError(f"{self.operator} of a tensor of unknown rank has no ONNX form.")
        return int(rank)

    def finish(self, *results: str) -> None:
        """Replaces the TensorFlow node by the results, which take the names of its outputs."""
        graph, node = self._graph, self._node
        outputs, shapes, dtypes = list(node.output), node.output_shapes, node.output_dtypes
        graph.remove_node(node.name)
        for result, output, shape, dtype in zip(results, outputs, shapes, dtypes, strict=True):
            if result not in self._written or results.count(result) > 1:
                # A later pass removes this Identity and its name.
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
    """Registers a function as the handler of TensorFlow operators for a range of opsets, including both ends.

    The function takes a `Replacement` and the names of the inputs. It returns the names of the results, or None if it
    leaves the node to tf2onnx. It is registered at each opset, since tf2onnx would prefer its own handler of a higher
    opset.

    Args:
        operators: The types of the TensorFlow operators.
        since: The first valid opset.
        until: The last valid opset.
        is_refused_before: Whether earlier opsets are refused, because tf2onnx's own handler for them is wrong.
        exported_since: The least opset of an export, for handlers that write operators unknown to tf2onnx.
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
