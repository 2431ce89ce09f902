"""The ONNX model of a file: the declared graph after all passes, its weights and its metadata."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from keras_pe.export.artifacts.artifact import LAYERS_KEY, TensorInfo
from keras_pe.export.artifacts.rewrite import Rewrite, unfused_texts
from keras_pe.export.graph.graph_queries import GraphView
from keras_pe.export.graph.trace_function import Trace, Weight
from keras_pe.export.graph.unfused import Unfused
from keras_pe.export.model.stored_weights import FOLDED_KEY, LAYOUTS_KEY, foldings_to_json, layouts_to_json
from keras_pe.export.onnx.finishing.canonical_form import place_in_layers
from keras_pe.export.onnx.finishing.graph_edits import WEIGHT, set_weight, standing_for
from keras_pe.export.onnx.finishing.passes import Graph, run_passes
from keras_pe.export.onnx.finishing.rules import Outcome
from keras_pe.export.onnx.handlers import opsets
from keras_pe.version import __version__


def assemble(proto: Any, trace: Trace, unfused: Unfused) -> tuple[Any, list[Weight], list[Rewrite]]:
    """Returns the model with the inputs and outputs of the signature, the weights in the order of use, the rewrites."""
    from onnx import shape_inference

    signature = trace.signature
    model = ir.from_proto(shape_inference.infer_shapes(proto))
    graph, outputs = model.graph, dict(zip(trace.outputs, (spec.name for spec in signature.outputs), strict=True))
    _declare(graph, trace)
    returned = {outputs[output]: tensor for tensor, output in trace.returned.items()}
    place_in_layers(graph, lambda result: trace.view.layer_path(returned.get(result, result)))
    traced = _values_of_layers(graph, trace, outputs)
    each = Graph(model, trace.view.layers)
    run_passes(each)
    texts = {LAYERS_KEY: json.dumps(_layer_tensors(trace, traced), sort_keys=True)}
    rewrites = [_find_rewrite(outcome, trace.view, returned) for outcome in each.outcomes]
    rewrites += unfused.rewrites(trace.view.layer_path)
    texts |= unfused_texts(rewrites)
    used = {value: value.meta[WEIGHT] for value in _read(graph) if WEIGHT in value.meta}
    if layouts := {str(value.name): weight.layout for value, weight in used.items() if weight.layout is not None}:
        texts[LAYOUTS_KEY] = layouts_to_json(layouts)
    if each.foldings:
        texts[FOLDED_KEY] = foldings_to_json(each.foldings)
    graph.inputs[:] = [value for value in graph.inputs if WEIGHT not in value.meta]
    written = _to_proto(model)
    set_metadata(written, texts)
    return written, list(used.values()), rewrites


def _find_rewrite(outcome: Outcome, view: GraphView, returned: Mapping[str, str]) -> Rewrite:
    """Returns the record of an outcome, with the line of the user's code.

    Args:
        outcome: The outcome of a rule.
        view: The traced graph.
        returned: The tensor of each output of the model.
    """
    found = view.location(returned.get(outcome.traced, outcome.traced))
    return Rewrite(outcome.layer, outcome.operator, outcome.reason, found["file"], found["line"])


def _declare(graph: ir.Graph, trace: Trace) -> None:
    """Sets the inputs of a graph to those of the signature, followed by the weights, and sets its outputs."""
    signature, values = trace.signature, {value.name: value for value in (*graph.inputs, *graph.outputs)}
    graph.inputs[:] = [values.get(spec.name) or ir.Value(name=spec.name) for spec in signature.inputs]
    graph.outputs[:] = [values[spec.name] for spec in signature.outputs]
    for value, spec in zip((*graph.inputs, *graph.outputs), (*signature.inputs, *signature.outputs), strict=True):
        value.type, value.shape = ir.TensorType(ir.DataType.from_numpy(_numpy(spec.dtype))), ir.Shape(spec.shape)
    for weight in trace.weights:
        if weight.name in values:
            graph.inputs.append(values[weight.name])
            set_weight(values[weight.name], weight)


def _values_of_layers(graph: ir.Graph, trace: Trace, outputs: Mapping[str, str]) -> dict[str, list[list[ir.Value]]]:
    """Returns the values of each tensor that a call of a layer returns, by the path of the call."""
    values = {value.name: value for node in graph for value in node.outputs}

    def find(tensor: str) -> list[ir.Value]:
        # An output that nodes read too has a name of its own beside the output's.
        names = (tensor, outputs.get(tensor), outputs.get(trace.returned.get(tensor, "")))
        return [values[name] for name in names if name in values]

    return {path: [find(tensor) for tensor in tensors] for path, tensors in trace.layers.items()}


def declare_outputs(model: Any, outputs: Sequence[TensorInfo]) -> None:
    """Declares the outputs of a model."""
    del model.graph.output[:]
    model.graph.output.extend(_value(spec) for spec in outputs)


def set_metadata(model: Any, texts: Mapping[str, str]) -> None:
    """Adds texts to the metadata of a model, in order."""
    from onnx import helper

    helper.set_model_props(model, dict(sorted({**{x.key: x.value for x in model.metadata_props}, **texts}.items())))


def _layer_tensors(trace: Trace, traced: Mapping[str, Sequence[Sequence[ir.Value]]]) -> dict[str, list[str | None]]:
    """Returns the names of the tensors that each call of a layer returns; None for a tensor that the graph lacks."""
    import keras

    def find(values: Sequence[ir.Value]) -> str | None:
        found = (standing_for(value) for value in values)
        return next((value.name for value in found if value is not None and value.producer() is not None), None)

    known = {path: [find(values) for values in tensors] for path, tensors in traced.items()}
    lost = {path.rpartition("/")[0] for path, tensors in known.items() if not any(tensors)}
    # List both directions of a Bidirectional or neither, so that a fault in both is located in the Bidirectional.
    layers = trace.view.layers
    halved = {path for path in lost if isinstance(layers.get(path.partition("#")[0]), keras.layers.Bidirectional)}
    return {path: x for path, x in known.items() if any(x) and path.rpartition("/")[0] not in halved}


def _read(graph: ir.Graph) -> dict[ir.Value, None]:
    """Returns the inputs of all nodes of a graph and of the graphs inside them, in order, and the outputs."""
    read = (value for node in graph.all_nodes() for value in node.inputs if value is not None)
    return dict.fromkeys((*read, *graph.outputs))


def _to_proto(model: ir.Model) -> Any:
    """Returns the `onnx.ModelProto` of a model, without the types and shapes of intermediate values."""
    from onnx import helper

    for node in model.graph.all_nodes():
        for value in node.outputs:
            if not value.is_graph_output():
                value.type = value.shape = None
    domains = {node.domain for node in model.graph.all_nodes()}
    others = {domain: version for domain, version in opsets.OTHER_VERSIONS.items() if domain in domains}
    imported = [helper.make_opsetid(*each) for each in {"": model.graph.opset_imports[""], **others}.items()]
    model.graph.name = "model"
    return helper.make_model(
        ir.to_proto(model.graph),
        opset_imports=imported,
        ir_version=helper.find_min_ir_version_for(imported, ignore_unknown=True),
        producer_name="keras_pe",
        producer_version=__version__,
    )


def _value(spec: TensorInfo) -> Any:
    from onnx import helper

    dtype = helper.np_dtype_to_tensor_dtype(_numpy(spec.dtype))
    return helper.make_tensor_value_info(spec.name, dtype, spec.shape)


def _numpy(dtype: str) -> Any:
    import ml_dtypes  # noqa: F401  # gives NumPy the names bfloat16, float8_e4m3fn, ...
    import numpy as np

    return np.dtype(object if dtype == "string" else dtype)
