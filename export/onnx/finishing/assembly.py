"""The finishing of an ONNX model: weights taken out of its inputs, names, dimensions, metadata, one canonical form."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from keras_pe.export.artifacts.artifact import LAYERS_KEY, TensorInfo
from keras_pe.export.artifacts.contents import UNFUSED_KEY
from keras_pe.export.artifacts.onnx_model import all_nodes, bodies
from keras_pe.export.graph.tracing import Trace, Weight
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.stored_weights import FOLDED_KEY, LAYOUTS_KEY, foldings_to_json, layouts_to_json
from keras_pe.export.onnx.finishing.canonical import make_canonical, name_after_layers
from keras_pe.export.onnx.finishing.constants import compute_constants, leave_out_needless
from keras_pe.export.onnx.finishing.graph_edits import order_needed
from keras_pe.export.onnx.finishing.image_axes import compute_channels_first, keep_rows
from keras_pe.export.onnx.finishing.normalizations import fold_normalizations, store_normalizations
from keras_pe.export.onnx.finishing.operator_forms import (
    add_biases_before_splits,
    bound_once,
    keep_pads,
    keep_sparse_windows,
    leave_negative_indices,
    name_global_averages,
    name_root_mean_squares,
    spell_root_mean_squares,
    turn_images_first,
)
from keras_pe.export.onnx.finishing.reshapes import (
    ask_for_single_sizes,
    join_shapes,
    remove_needless_reshapes,
    share_sizes,
    take_zero_sizes,
)
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from keras_pe.export.onnx.finishing.weight_layouts import multiply_unsigned, name_weights, store_as_read
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.onnx.operator_calls import Unfused
from keras_pe.version import __version__


def assemble(proto: Any, trace: Trace, unfused: Unfused) -> tuple[Any, list[Weight]]:
    """Returns the model, its inputs and outputs exactly the signature's, and the weights in the order of use."""
    from onnx import helper

    signature = trace.signature
    shapes = {weight.name: weight.shape for weight in trace.weights}
    graph, sizes, same = _rewritten(proto, signature, shapes)
    weights = {weight.name: weight for weight in trace.weights}
    layouts = multiply_unsigned(graph, weights, store_as_read(graph, shapes))
    weights |= {name: replace(weights[name], layout=layout) for name, layout in layouts.items()}
    same |= join_shapes(graph, sizes)
    order_needed(graph)
    take_zero_sizes(graph, sizes)
    turn_images_first(graph)
    ask_for_single_sizes(graph, sizes)
    outputs = dict(zip(trace.outputs, (spec.name for spec in signature.outputs), strict=True))
    traced = {outputs[output]: tensor for tensor, output in trace.returned.items()}
    paths: dict[str, str] = {}

    def path_of(result: str) -> str:
        return paths.get(result) or trace.view.layer_path(traced.get(result, result))

    folded = fold_normalizations(graph, weights, trace.view.layers, path_of)
    weights |= folded.weights
    same |= folded.results
    paths |= folded.paths
    stored = store_normalizations(graph, sizes, weights, trace.view.layers, path_of)
    weights |= stored.weights
    fixed = [*(spec.name for spec in signature.inputs), *outputs.values()]
    weights |= name_weights(graph, {*fixed, *weights}, trace.view.layers, path_of)
    merged = make_canonical(graph)
    stands = {old: _kept(old, same) for old in same}
    merged = {old: merged.get(kept, kept) for old, kept in stands.items()} | merged
    names = name_after_layers(graph, [*fixed, *weights], path_of)
    renamed = {old: names[kept] for old, kept in merged.items() if old and kept in names}
    domains = {node.domain for node in all_nodes(graph)}
    imported = [opset for opset in proto.opset_import if opset.domain == ""]
    if opsets.ML_DOMAIN in domains:
        imported.append(helper.make_opsetid(opsets.ML_DOMAIN, opsets.ML_VERSION))
    model = helper.make_model_gen_version(
        graph, opset_imports=imported, producer_name="keras_pe", producer_version=__version__
    )
    texts = {LAYERS_KEY: json.dumps(_layer_tensors(graph, trace, outputs, renamed), sort_keys=True)}
    if reasons := unfused.to_json(trace.view.layer_path):
        texts[UNFUSED_KEY] = reasons
    used = {name: weights[name] for name in _names(graph) if name in weights}
    if layouts := {name: weight.layout for name, weight in used.items() if weight.layout is not None}:
        texts[LAYOUTS_KEY] = layouts_to_json(layouts)
    if foldings := folded.layers | stored.layers:
        texts[FOLDED_KEY] = foldings_to_json(foldings)
    set_metadata(model, texts)
    return model, list(used.values())


def _rewritten(
    proto: Any, signature: Signature, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Any, KnownSizes, dict[str, str]]:
    """Returns the graph in the operators and the order of axes that run fastest, the sizes of its tensors, and what
    stands for those that are gone."""
    import onnx

    opset = next(opset.version for opset in proto.opset_import if opset.domain in ("", "ai.onnx"))
    add_biases_before_splits(proto.graph, shapes)
    known = {**{spec.name: spec.shape for spec in signature.inputs}, **shapes}
    sizes = KnownSizes(proto, known)
    bound_once(proto.graph, sizes)
    while compute_constants(proto.graph, sizes, opset):
        sizes = KnownSizes(proto, known)
    same = leave_out_needless(proto.graph, sizes)
    same |= remove_needless_reshapes(proto.graph, sizes)
    spell_root_mean_squares(proto.graph, sizes)
    if opset >= opsets.ROOT_MEAN_SQUARES_VERSION:
        name_root_mean_squares(proto.graph, sizes)
    name_global_averages(proto.graph, sizes)
    leave_negative_indices(proto.graph, sizes)
    share_sizes(proto.graph, sizes)
    graph = onnx.GraphProto()
    graph.CopyFrom(proto.graph)
    del graph.input[:], graph.output[:]
    graph.input.extend(_value(spec) for spec in signature.inputs)
    graph.output.extend(_value(spec) for spec in signature.outputs)
    graph.name = "model"
    same |= keep_rows(graph, sizes)
    order_needed(graph)
    keep_pads(graph, opset)
    keep_sparse_windows(graph, sizes)
    same |= compute_channels_first(graph, sizes, shapes)
    order_needed(graph)
    return graph, sizes, same


def _kept(tensor: str, same: Mapping[str, str]) -> str:
    """Returns what stands for a tensor in the end."""
    passed: set[str] = set()
    while tensor in same and tensor not in passed:
        passed.add(tensor)
        tensor = same[tensor]
    return tensor


def declare_outputs(model: Any, outputs: Sequence[TensorInfo]) -> None:
    """Says of a model what it returns."""
    del model.graph.output[:]
    model.graph.output.extend(_value(spec) for spec in outputs)


def set_metadata(model: Any, texts: Mapping[str, str]) -> None:
    """Gives a model texts beside those that it has, in order."""
    from onnx import helper

    helper.set_model_props(model, dict(sorted({**{x.key: x.value for x in model.metadata_props}, **texts}.items())))


def _layer_tensors(
    graph: Any, trace: Trace, outputs: Mapping[str, str], renamed: Mapping[str, str]
) -> dict[str, list[str | None]]:
    """Returns the tensors that each call of a layer returns, by its path; None for one that the graph has not kept."""
    import keras

    computed = {name for node in graph.node for name in node.output}

    def find(tensor: str) -> str | None:
        # What is an output and read within as well keeps its own name beside the output's.
        names = (renamed.get(tensor), outputs.get(tensor), outputs.get(trace.returned.get(tensor, "")))
        return next((name for name in names if name in computed), None)

    known = {path: [find(tensor) for tensor in tensors] for path, tensors in trace.layers.items()}
    lost = {path.rpartition("/")[0] for path, tensors in known.items() if not any(tensors)}
    # Of two directions both are told or neither: what is wrong in both is then found in the layer around them.
    layers = trace.view.layers
    halved = {path for path in lost if isinstance(layers.get(path.partition("#")[0]), keras.layers.Bidirectional)}
    return {path: x for path, x in known.items() if any(x) and path.rpartition("/")[0] not in halved}


def _names(graph: Any) -> list[str]:
    names = []
    for node in graph.node:
        names += node.input
        for body in bodies(node):
            names += _names(body)
    return names + [output.name for output in graph.output]


def _value(spec: TensorInfo) -> Any:
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(_numpy(spec.dtype))
    return helper.make_tensor_value_info(spec.name, dtype, spec.shape)


def _numpy(dtype: str) -> Any:
    import ml_dtypes  # noqa: F401  # gives NumPy the names bfloat16, float8_e4m3fn, ...
    import numpy as np

    return np.dtype(object if dtype == "string" else dtype)
