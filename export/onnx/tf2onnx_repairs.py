"""Temporary patches of tf2onnx 1.17 during a conversion: missing handlers, wrong results and slow functions."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.keras_internals import repair_tf2onnx

# A handler by operator type and opset. It takes the graph and the node of tf2onnx.
Handlers = Mapping[tuple[str, int], Callable[..., None]]


@contextlib.contextmanager
def repaired(handlers: Handlers) -> Iterator[None]:
    """A context in which tf2onnx has the handlers and the patches."""
    repair_tf2onnx()
    with contextlib.ExitStack() as stack:
        for owner, name, value in [*_handler_patches(handlers), *_bfloat16(), *_repairs()]:
            stack.enter_context(_replaced(owner, name, value))
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: Any, value: Any) -> Iterator[None]:
    """A context that replaces an item of a dictionary, or an attribute of any other object."""
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


def _handler_patches(handlers: Handlers) -> list[tuple[Any, Any, Any]]:
    from tf2onnx.handler import tf_op

    registered = tf_op.get_opsets()[""]
    return [(registered[opset], op_type, (handler, {})) for (op_type, opset), handler in handlers.items()]


def _repairs() -> list[tuple[Any, Any, Any]]:
    """Returns the patches of five functions: an object, its attribute, and the new value.

    The main branch of tf2onnx in July 2026 has these five functions unchanged, and its last release is 1.17.0. Release
    1.18 is the first one that may make a patch needless, so pyproject.toml excludes this release.
    """
    from tf2onnx import tf_loader, tfonnx
    from tf2onnx.graph import Graph

    def left_alone(graph: Any, nodes: Any) -> Any:
        return nodes

    return [
        (tf_loader, "tflist_to_onnx", partial(_read_graph, tf_loader.tflist_to_onnx)),
        (Graph, "extract_sub_graph_nodes", _nodes_behind),
        (tfonnx, "rewrite_conv2d_with_pad", partial(_merge_paddings, tfonnx.rewrite_conv2d_with_pad)),
        # These rewriters guess that a loop is a layer. `recurrences` exports layers without guessing.
        (tfonnx, "rewriter_lstm_tf2", left_alone),
        (tfonnx, "rewrite_gru_tf2", left_alone),
    ]


def _merge_paddings(usual: Callable[..., Any], graph: Any, nodes: Any) -> Any:
    """Merges paddings into convolutions that have none.

    tf2onnx's own rewriter would replace the explicit padding of a convolution, such as a dilated one with "same".
    """
    usual(graph, [node for node in nodes if node.type != "Conv2D" or node.get_attr_value("padding") != b"EXPLICIT"])
    return nodes


def _nodes_behind(
    graph: Any,
    outputs_name: list[str],
    input_checker: Callable[[Any], bool] | None = None,
    remove_unused_inputs: bool = True,
) -> list[Any]:
    """Returns the nodes that outputs depend on, in one walk.

    tf2onnx's own function walks once for each output, and a detector may have fifty outputs.
    """
    names = [*outputs_name, *(() if remove_unused_inputs else (node.output[0] for node in graph.inputs))]
    found = set()
    while names:
        node = graph.get_node_by_output(names.pop(), search_in_parent_graphs=False)
        if node and node not in found and not (input_checker and input_checker(node) is False):
            found.add(node)
            names += [*node.input, *node.get_implicit_inputs()]
    return [node for node in graph.get_nodes() if node in found]  # a set is ordered by memory addresses, which change


def _bfloat16() -> list[tuple[dict[Any, Any], Any, Any]]:
    """Returns the patches for bfloat16, which tf2onnx confuses with float16."""
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
    """Corrects the shapes of the inputs of a condition's branches.

    tf2onnx counts the condition itself as an input, which shifts the shapes by one.
    """
    *others, shapes = usual(graph, *args, **kwargs)
    for operator in graph.get_operations():
        if operator.type in ("If", "StatelessIf"):
            own = [tensor.shape for tensor in operator.inputs[1:]]
            shapes.update({operator.get_attr(name).name: own for name in ("then_branch", "else_branch")})
    return (*others, shapes)
