"""Functions that use private names of TensorFlow. Tried on TensorFlow 2.21."""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from keras_pe.export.model.watch.temporary_patches import replaced_functions

_RANKS = {"conv2d": 4, "depthwise_conv2d_native": 4, "max_pool3d": 5}  # axes of the input


def with_constants(function: Any, **options: bool) -> Any:
    """Returns a concrete function with its variables replaced by constants."""
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    return convert_variables_to_constants_v2(function, **options)


def replaced_slices(function: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces `tensor[...]` in this thread. The function is called with the usual implementation and its arguments."""
    from tensorflow.python.ops import array_ops

    return replaced_functions([(array_ops, "strided_slice", function)])


def replaced_softplus(function: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces `softplus`, also within other functions, in this thread. See `replaced_slices` for the arguments."""
    from tensorflow.python.ops import gen_nn_ops

    return replaced_functions([(gen_nn_ops, "softplus", function)])


def replaced_operators(
    find: Callable[[str, Mapping[str, Any]], Callable[..., Any] | None],
) -> contextlib.AbstractContextManager[None]:
    """Replaces operators while this thread builds a graph.

    Args:
        find: A function from an operator's type, and its inputs and attributes by name, to a form. It returns None for
            the usual operator. A form takes the function that writes the usual operator and returns its outputs,
            followed by the inputs and attributes. It returns as many outputs as the operator has.
    """
    from tensorflow.python.eager import execute
    from tensorflow.python.framework import op_def_library

    def apply(usual: Callable[..., Any], kind: str, name: str | None = None, **given: Any) -> Any:
        texts = {key: value.decode() if isinstance(value, bytes) else value for key, value in given.items()}
        form = None if execute.must_record_gradient() else find(kind, texts)
        if form is None:
            return usual(kind, name=name, **given)
        plain = (name or kind).rstrip("/").rpartition("/")[2]  # TensorFlow makes only relative names unique
        result = form(lambda **given: list(usual(kind, name=plain, **given)[3]), **texts)
        outputs = list(result) if isinstance(result, list | tuple) else [result]
        return None, False, outputs[0].op, outputs

    return replaced_functions([(op_def_library, "_apply_op_helper", apply)])


def replaced_depthwise_convolutions(function: Callable[..., Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces depthwise convolutions in this thread.

    Args:
        function: A function of the images, the kernel, the strides and dilations of the two axes, the padding, and
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


def fatal_calls_refused() -> contextlib.AbstractContextManager[None]:
    """Returns a context in which TensorFlow raises ValueError in this thread for arguments that would end the process.

    They are a tensor of another rank in a convolution or pooling, and the length 0 of a Fourier transform.
    """
    import keras

    if keras.backend.backend() != "tensorflow":
        return contextlib.nullcontext()
    from tensorflow.python.ops import gen_nn_ops
    from tensorflow.python.ops.signal import fft_ops

    of_rank = ((gen_nn_ops, name, functools.partial(_check_rank, rank)) for name, rank in _RANKS.items())
    return replaced_functions([*of_rank, (fft_ops, "_maybe_pad_for_rfft", _check_length)])


def _check_rank(rank: int, usual: Callable[..., Any], input: Any, *arguments: Any, **keywords: Any) -> Any:
    given = getattr(getattr(input, "shape", None), "rank", None)
    if given not in (rank, None):
        raise ValueError(f"The input must have {rank} axes. Received: {given} axes.")
    return usual(input, *arguments, **keywords)


def _check_length(usual: Callable[..., Any], tensor: Any, rank: int, length: Any, *arguments: Any, **names: Any) -> Any:
    import tensorflow as tf

    numbers = tf.get_static_value(length)
    if numbers is not None and not (numbers > 0).all():
        raise ValueError(f"The length of a Fourier transform must be positive. Received: {numbers.tolist()}.")
    return usual(tensor, rank, length, *arguments, **names)


def with_row(rows: Any, place: Any, row: Any) -> Any:
    """Returns rows with one of them replaced, by an operator that LiteRT runs in place."""
    import tensorflow as tf
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    start = tf.concat([[place], tf.zeros([len(row.shape)], "int32")], 0)
    return gen_xla_ops.xla_dynamic_update_slice(rows, row[None], start)


def op_libraries() -> list[str]:
    """Returns the names of the modules that have loaded custom operators into TensorFlow, such as TensorFlow Text."""
    return [
        name
        for name, module in list(sys.modules.items())
        if module is not None
        and not name.startswith(("tensorflow.", "__main__"))
        # `tf.load_op_library` returns a module with this mark.
        and any(type(v) is ModuleType and "_IS_TENSORFLOW_PLUGIN" in vars(v) for v in list(vars(module).values()))
    ]


def optimize_graph(definition: Any, kept: Iterable[str]) -> Any:
    """Returns a `GraphDef` with inlined functions and folded constants. Quantized weights stay quantized.

    Args:
        definition: The `GraphDef`.
        kept: The names of the tensors to keep.
    """
    import tensorflow as tf
    from tensorflow.core.protobuf import rewriter_config_pb2
    from tensorflow.python.grappler import tf_optimizer

    meta_graph = tf.compat.v1.MetaGraphDef(graph_def=definition)
    meta_graph.collection_def["train_op"].node_list.value.extend(kept)
    config = tf.compat.v1.ConfigProto()
    config.graph_options.infer_shapes = True
    options = config.graph_options.rewrite_options
    options.min_graph_nodes = -1  # by default TensorFlow leaves small graphs as they are
    options.optimizers[:] = ["function", "constfold", "dependency"]
    options.function_optimization = rewriter_config_pb2.RewriterConfig.AGGRESSIVE
    options.experimental_disable_folding_quantization_emulation = True  # folding would turn int8 weights into float32
    return tf_optimizer.OptimizeGraph(config, meta_graph)
