"""What TensorFlow does not offer in public. Tried on TensorFlow 2.21."""

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from keras_pe.export.model.watch.replaced import replaced_functions


def with_constants(function: Any, **options: bool) -> Any:
    """Returns a concrete function whose variables are constants."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    return convert_variables_to_constants_v2(function, **options)


def replaced_slices(function: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Gives `tensor[...]` another implementation, in this thread: called with the usual one and its arguments."""
    from tensorflow.python.ops import array_ops

    return replaced_functions([(array_ops, "strided_slice", function)])


def replaced_softplus(function: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Gives `softplus`, and with it what is made of it, another implementation, in this thread: called as above."""
    from tensorflow.python.ops import gen_nn_ops

    return replaced_functions([(gen_nn_ops, "softplus", function)])


def replaced_operators(
    find: Callable[[str, Mapping[str, Any]], Callable[..., Any] | None],
) -> contextlib.AbstractContextManager[None]:
    """Writes operators in other forms while a graph is built, in this thread.

    Args:
        find: Called with an operator's type, and its inputs and attributes by name. It returns the form, or None for
            the usual operator. A form is called with the function that writes the usual operator and returns its
            outputs, and with the inputs and attributes; it returns as many outputs as the operator has.
    """
    from tensorflow.python.eager import execute
    from tensorflow.python.framework import op_def_library

    def apply(usual: Callable[..., Any], kind: str, name: str | None = None, **given: Any) -> Any:
        texts = {key: value.decode() if isinstance(value, bytes) else value for key, value in given.items()}
        form = None if execute.must_record_gradient() else find(kind, texts)
        if form is None:
            return usual(kind, name=name, **given)
        plain = (name or kind).rstrip("/").rpartition("/")[2]  # a scope's whole name could be given once
        result = form(lambda **given: list(usual(kind, name=plain, **given)[3]), **texts)
        outputs = list(result) if isinstance(result, list | tuple) else [result]
        return None, False, outputs[0].op, outputs

    return replaced_functions([(op_def_library, "_apply_op_helper", apply)])


def replaced_depthwise_convolutions(function: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Gives convolutions of each channel by itself another implementation, in this thread.

    Args:
        function: Called with the images, the kernel, the strides and gaps of the two axes of an image, the padding and
            whether the channels are last.
    """
    import tensorflow as tf
    from tensorflow.python.ops import nn_impl

    def depthwise(usual: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        given = inspect.signature(usual).bind(*arguments, **options).arguments
        is_last = (given.get("data_format") or "NHWC") == "NHWC"
        gaps = given.get("dilations") or given.get("rate") or [1, 1]
        strides = given["strides"][1:3] if is_last else given["strides"][2:]
        return function(given["input"], given["filter"], list(strides), list(gaps), given["padding"], is_last)

    def separable(usual: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        given = inspect.signature(usual).bind(*arguments, **options).arguments
        kernel, pointwise = given.pop("depthwise_filter"), given.pop("pointwise_filter")
        images = nn_impl.depthwise_conv2d(filter=kernel, **given)
        format = given.get("data_format") or "NHWC"
        return tf.nn.conv2d(images, pointwise, [1, 1, 1, 1], "VALID", data_format=format)

    return replaced_functions([(nn_impl, "depthwise_conv2d", depthwise), (nn_impl, "separable_conv2d", separable)])


def with_row(rows: Any, place: Any, row: Any) -> Any:
    """Returns rows with one of them replaced, by the operator that LiteRT computes where the rows lie in memory."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    start = tf.concat([[place], tf.zeros([len(row.shape)], "int32")], 0)
    return gen_xla_ops.xla_dynamic_update_slice(rows, row[None], start)


def op_libraries() -> list[str]:
    """Returns the modules that have loaded operators of their own into TensorFlow, such as those of TensorFlow Text."""
    return [
        name
        for name, module in list(sys.modules.items())
        if module is not None
        and not name.startswith(("tensorflow.", "__main__"))
        # The module that `tf.load_op_library` has made of a library.
        and any(type(v) is ModuleType and "_IS_TENSORFLOW_PLUGIN" in vars(v) for v in list(vars(module).values()))
    ]


def optimized(definition: Any, kept: Iterable[str]) -> Any:
    """Returns a `GraphDef` with its functions inlined and its constants folded, quantized weights left as they are.

    Args:
        definition: The `GraphDef`.
        kept: The names of tensors that must stay.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    meta_graph = tf.compat.v1.MetaGraphDef(graph_def=definition)
    meta_graph.collection_def["train_op"].node_list.value.extend(kept)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.infer_shapes = True
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1  # small graphs too
    options.optimizers[:] = ["function", "constfold", "dependency"]
    options.function_optimization = rewriter_config_pb2.RewriterConfig.AGGRESSIVE
    options.experimental_disable_folding_quantization_emulation = True  # of weights: they stay int8
    return tf_optimizer.OptimizeGraph(config, meta_graph)
