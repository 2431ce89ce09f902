"""A traced function as one TensorFlow graph: functions inlined, constants folded, free variables frozen.

tf2onnx 1.17 does the same in three passes, two of which fill a tensor of zeros for each weight.
"""

from collections.abc import Iterable
from typing import Any

from keras_pe.export.graph.tracing import Trace

_CONTROL_FLOW = ("While", "StatelessWhile", "If", "StatelessIf")


def inline(trace: Trace) -> Any:
    """Returns a `GraphDef` that computes the trace's outputs; loops and branches stay operators with bodies."""
    definition = _frozen(trace.function)
    for nodes in [definition.node, *(function.node_def for function in definition.library.function)]:
        for node in nodes:
            if node.op in _CONTROL_FLOW:
                node.attr["_lower_using_switch_merge"].b = False  # else TensorFlow takes them apart
            node.attr.pop("_XlaMustCompile", None)  # else TensorFlow inlines no function of `jit_compile=True`
    arguments = [weight.argument for weight in trace.weights]
    weights = {argument.partition(":")[0] for argument in arguments}
    # TensorFlow's optimizer fills a tensor for each placeholder, but not for a constant whose value is elsewhere.
    _rename(definition.node, weights, "Placeholder", "ImmutableConst")
    definition = _optimise(definition, [*trace.inputs, *arguments, *trace.outputs])
    _rename(definition.node, weights, "ImmutableConst", "Placeholder")
    return definition


def _frozen(function: Any) -> Any:
    """Returns the function's `GraphDef`, with constants for the variables that are no weights of the trace, if any."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    from tf2onnx.tf_loader import fix_freezing_errors_part2

    if all(inner.dtype != tf.resource for _, inner in function.graph.captures):
        return function.graph.as_graph_def()
    frozen = convert_variables_to_constants_v2(function, lower_control_flow=False, aggressive_inlining=True)
    return fix_freezing_errors_part2(frozen.graph.as_graph_def())


def _rename(nodes: Iterable[Any], names: set[str], old: str, new: str) -> None:
    for node in nodes:
        if node.name in names and node.op == old:
            node.op = new


def _optimise(definition: Any, kept: Iterable[str]) -> Any:
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
