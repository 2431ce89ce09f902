"""What tf2onnx 1.17 lacks, does wrong or does slowly, put right for as long as a conversion lasts."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial, partialmethod
from itertools import takewhile
from typing import Any

import numpy as np

from keras_pe.export.model.watch.keras_internals import repair_tf2onnx

# An operator's handler at an opset: takes tf2onnx's graph and node.
Handlers = Mapping[tuple[str, int], Callable[..., None]]


@contextlib.contextmanager
def repaired(handlers: Handlers) -> Iterator[None]:
    """Puts the handlers and the repairs in place, and takes them out again."""
    repair_tf2onnx()
    with contextlib.ExitStack() as stack:
        for owner, name, value in [*_registered(handlers), *_bfloat16(), *_repairs()]:
            stack.enter_context(_replaced(owner, name, value))
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: Any, value: Any) -> Iterator[None]:
    """Replaces an item of a dictionary, or an attribute of anything else."""
    is_item, absent = isinstance(owner, dict), object()
    before = owner.get(name, absent) if is_item else getattr(owner, name)
    write = owner.__setitem__ if is_item else partial(setattr, owner)
    write(name, value)
    try:
        yield
    finally:
        if before is absent:
            del owner[name]
        else:
            write(name, before)


def _registered(handlers: Handlers) -> list[tuple[Any, Any, Any]]:
    from tf2onnx.handler import tf_op

    registered = tf_op.get_opsets()[""]
    return [(registered[opset], op_type, (handler, {})) for (op_type, opset), handler in handlers.items()]


def _repairs() -> list[tuple[Any, Any, Any]]:
    """Returns what stands in place of what: a dictionary and its key or an object and its attribute, and the value."""
    from tf2onnx import tf_loader, tfonnx
    from tf2onnx.graph import Graph
    from tf2onnx.optimizer import back_to_back_optimizer
    from tf2onnx.optimizer.reshape_optimizer import ReshapeOptimizer
    from tf2onnx.optimizer.transpose_optimizer import TransposeOptimizer

    def left_alone(graph: Any, nodes: Any) -> Any:
        return nodes

    joining = back_to_back_optimizer._func_map
    around = {
        (TransposeOptimizer, "_handle_nhwc_tranpose"): _move_within_graph,
        (TransposeOptimizer, "_add_handler"): _join_biases,
        (TransposeOptimizer, "_reduce_latest_handler"): _reduce_as_it_stands,
        (TransposeOptimizer, "_initialize_handlers"): _initialize_handlers,
        (ReshapeOptimizer, "_optimize_reshape"): _squeeze_outputs,
    }
    return [
        (tf_loader, "tflist_to_onnx", partial(_read_graph, tf_loader.tflist_to_onnx)),
        (Graph, "extract_sub_graph_nodes", _nodes_behind),
        # They take a loop for a layer by its looks; `recurrences` knows them, and wants no constants.
        (tfonnx, "rewriter_lstm_tf2", left_alone),
        (tfonnx, "rewrite_gru_tf2", left_alone),
        (joining, ("Reshape",), _join_reshapes),
        (joining, ("Transpose",), partial(_join_turns, joining["Transpose",])),
        (joining, ("Cast",), partial(_join_casts, joining["Cast",])),
        (TransposeOptimizer, "_optimize_at_current_graph_level", _move_in_turn),
        *((owner, name, partialmethod(method, getattr(owner, name))) for (owner, name), method in around.items()),
    ]


def _nodes_behind(
    graph: Any,
    outputs_name: list[str],
    input_checker: Callable[[Any], bool] | None = None,
    remove_unused_inputs: bool = True,
) -> list[Any]:
    """Returns the nodes that outputs depend on, in one walk.

    tf2onnx walks once for each output, after each change of each optimizer: a detector has fifty of them.
    """
    names = [*outputs_name, *(() if remove_unused_inputs else (node.output[0] for node in graph.inputs))]
    found = set()
    while names:
        node = graph.get_node_by_output(names.pop(), search_in_parent_graphs=False)
        if node and node not in found and not (input_checker and input_checker(node) is False):
            found.add(node)
            names += [*node.input, *node.get_implicit_inputs()]
    return [node for node in graph.get_nodes() if node in found]  # not in the order of their addresses


def _bfloat16() -> list[tuple[dict[Any, Any], Any, Any]]:
    """Returns what tf2onnx has to know of bfloat16, which it takes for float16."""
    import ml_dtypes
    from onnx import TensorProto
    from tensorflow import bfloat16
    from tf2onnx import tf_utils, utils

    return [
        (tf_utils.TF_TO_ONNX_DTYPE, bfloat16.as_datatype_enum, TensorProto.BFLOAT16),
        (utils.ONNX_TO_NUMPY_DTYPE, TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
        (utils.ONNX_DTYPE_NAMES, TensorProto.BFLOAT16, "bfloat16"),
    ]


def _read_graph(usual: Callable[..., tuple[Any, ...]], graph: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Tells the shapes of what the branches of a condition take.

    tf2onnx counts the condition itself among them, so that each has the shape of the one before it, or none.
    """
    *others, shapes = usual(graph, *args, **kwargs)
    for operator in graph.get_operations():
        if operator.type in ("If", "StatelessIf"):
            own = [tensor.shape for tensor in operator.inputs[1:]]
            shapes.update({operator.get_attr(name).name: own for name in ("then_branch", "else_branch")})
    return (*others, shapes)


def _join_reshapes(graph: Any, node: Any, consumers: list[Any]) -> list[Any]:
    """Two Reshapes in a row as one, where that is sound.

    tf2onnx drops the first of any two. A 0 in the second's shape copies a size of the first's output, and would then
    copy one of its input. It meets that in attention with a single head, whose Transpose it writes as a Reshape before.
    """
    if len(consumers) != 1 or consumers[0].type != "Reshape":
        return []
    shape = consumers[0].inputs[1]
    if not shape.is_const() or 0 in shape.get_tensor_value():
        return []
    graph.replace_inputs(consumers[0], [node.input[0], consumers[0].input[1]])
    graph.remove_node(node.name)
    return []


def _join_turns(usual: Callable[..., list[Any]], graph: Any, node: Any, consumers: list[Any]) -> list[Any]:
    """Leaves the turns between recurrent layers to `join_shapes`, which tells what stands for a layer's tensor then."""
    return [] if list(node.get_attr("perm").ints) == [1, 0, 2] else usual(graph, node, consumers)


def _join_casts(usual: Callable[..., list[Any]], graph: Any, node: Any, consumers: list[Any]) -> list[Any]:
    """Joins two Casts where the first loses nothing: tf2onnx takes any float for one that holds all others."""
    from tf2onnx.utils import map_onnx_to_numpy_type

    kinds = graph.get_dtype(node.input[0]), node.get_attr_int("to")
    if None in kinds:
        return []
    source, target = map(map_onnx_to_numpy_type, kinds)
    is_exact = source is not None and target is not None and np.can_cast(source, target, "safe")
    is_rounded = is_exact and np.dtype(source).itemsize == 8 and np.dtype(source).kind != np.dtype(target).kind
    return usual(graph, node, consumers) if is_exact and not is_rounded else []


def _move_within_graph(optimizer: Any, usual: Callable[..., bool], transposition: Any) -> bool:
    """Keeps transpositions out of branches and loop bodies.

    tf2onnx moves a transposition toward what reads it, and swaps it with a node of a subgraph as if both were in one
    graph. The subgraph's result is then not transposed at all, and a square input hides it.
    """
    readers = optimizer._g.find_output_consumers(transposition.output[0])
    return all(reader.graph is optimizer._g for reader in readers) and usual(optimizer, transposition)


def _move_in_turn(optimizer: Any, graph: Any) -> Any:
    """Moves the transpositions of a graph until none can be moved.

    tf2onnx does the same, and starts over with the first after each: in a large graph that takes most of an export.
    """
    optimizer._g = graph
    optimizer.pre_optimize_action()
    while _moves(optimizer, graph):
        pass
    optimizer.merge_duplicated_transposes()
    optimizer.post_optimize_action()
    return graph


def _moves(optimizer: Any, graph: Any) -> bool:
    """Moves each transposition as far as it goes, those that come up meanwhile too; returns whether any was moved."""
    from tf2onnx.optimizer.transpose_optimizer import is_transpose, is_useless_transpose

    is_any = False
    waiting = deque(node.name for node in graph.get_nodes())
    known = set(waiting)
    while waiting:
        node = graph.get_node_by_name(waiting.popleft())
        if node is None or node.type != "Transpose":
            continue
        if is_transpose(node) and optimizer._handle_nhwc_tranpose(node):
            is_any = optimizer.graph_been_opt = True
            made = [other.name for other in takewhile(lambda x: x.name not in known, reversed(graph.get_nodes()))]
            known.update(made)
            waiting.extendleft([*made, node.name])
        elif is_useless_transpose(node):
            optimizer._remove_useless_tranpose(node)
            is_any = True
    return is_any


def _reduce_as_it_stands(optimizer: Any, usual: Callable[..., bool], transposition: Any, node: Any) -> bool:
    """Takes out a transposition before a reduction that drops its axes, where those that are left stay in order.

    tf2onnx moves one only past a reduction that keeps its axes, and an average over an image keeps none.
    """
    keepdims = node.get_attr("keepdims")
    if keepdims is None or keepdims.i or len(node.inputs) < 2 or not node.inputs[1].is_const():
        return usual(optimizer, transposition, node)
    order = list(transposition.get_attr("perm").ints)
    axes = {order[axis] for axis in node.inputs[1].get_tensor_value()}
    left = [axis for axis in order if axis not in axes]
    if left != sorted(left):
        return False
    graph = optimizer._g
    constant = graph.make_const(f"{node.name}_axes", np.array(sorted(axes)))
    graph.replace_inputs(node, [transposition.input[0], constant.output[0]])
    return True


def _initialize_handlers(optimizer: Any, usual: Callable[..., None]) -> None:
    """Moves transpositions past the activations that tf2onnx itself never writes."""
    usual(optimizer)
    for operator in ("Celu", "HardSigmoid", "HardSwish", "Shrink"):
        optimizer._handler_map[operator] = optimizer._handler_map["Relu"]


def _squeeze_outputs(optimizer: Any, usual: Callable[..., bool], node: Any, graph: Any) -> bool:
    """Returns from the graph what a Reshape is squeezed to.

    tf2onnx writes some Reshapes with axes too many and a Squeeze behind, for those that read it. A result of the graph
    is read by none, and would stay as it is. And tf2onnx fails at a Reshape whose rank it has not noted, as it writes
    them for the transpositions of images with one channel.
    """
    from tf2onnx import utils

    (output,) = node.output
    if graph.get_shape(output) is None:
        asked = graph.get_shape(node.input[1])
        if asked is None or len(asked) != 1 or asked[0] < 0:
            return False
        graph.set_shape(output, [-1] * asked[0])
    before = {reader.name for reader in graph.find_output_consumers(output)}
    is_optimized = usual(optimizer, node, graph)
    added = [reader for reader in graph.find_output_consumers(output) if reader.name not in before]
    for squeeze in added if output in graph.outputs else ():
        inner, squeezed = utils.make_name(node.name), squeeze.output[0]
        shapes = graph.get_shape(output), graph.get_shape(squeezed)
        dtype = graph.get_dtype(output)
        node.output = [inner]
        graph.replace_inputs(squeeze, [inner, *squeeze.input[1:]])
        squeeze.output = [output]
        graph.replace_all_inputs(squeezed, output)
        for name, shape in zip((inner, output), shapes, strict=True):
            graph.set_shape(name, shape)
            graph.set_dtype(name, dtype)
    return is_optimized


def _join_biases(optimizer: Any, usual: Callable[..., bool], transposition: Any, node: Any) -> bool:
    """Joins a constant that is added with the convolution before it only where it is a bias: one number a channel.

    tf2onnx joins any with as many numbers as there are channels, along whichever axis, and fails at a single number.
    """
    constant = node.inputs[1]
    value = constant.get_tensor_value(as_list=False) if constant.is_const() else None
    if value is not None and (not value.shape or value.size != value.shape[-1]):
        return bool(optimizer._handle_node_having_branches(transposition, node))
    return usual(optimizer, transposition, node)
