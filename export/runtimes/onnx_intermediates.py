"""Reads the inner tensors of an ONNX file, and runs the file with other values in their place."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from keras_pe.export.artifacts.onnx_model import all_graphs, external_file, needed_names, weight_files
from keras_pe.export.artifacts.onnx_quantization import quantized_constants
from keras_pe.export.model.stored_weights import LAYOUTS_KEY, layouts_from_json
from keras_pe.export.runtimes.runtime import INTEGERS, NUMBERS, STEPS, Array, Arrays, LazyArrays

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_NUMBERS = (*_FLOATS, TensorProto.INT8, TensorProto.UINT8)
_INTEGERS = (TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)
_PACKED = (TensorProto.INT4, TensorProto.UINT4)
_FLOAT_PRODUCTS = frozenset({"DynamicQuantizeMatMul", "MatMulNBits"})
"""Operators of ONNX Runtime that ONNX does not know. Their results have the type of the scale, their third input."""

_FLAG, _REPLACEMENT, _COMPUTED = "is_replaced", "replacement", "computed"


class InspectedModel:
    """An ONNX file whose tensors are outputs, and whose floating-point tensors can be replaced.

    Each of these passes an `If`, with a flag and a replacement among the model's inputs. The bodies of `If` and `Loop`
    are not entered.

    Attributes:
        names: The tensors in the order of computation, as the model returns them.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path).absolute()
        weight_files(self._path)  # refuses a file that names others outside its folder
        self._model = onnx.load(path, load_external_data=False)
        self.names = [name for node in self._model.graph.node for name in node.output if name]

    def feeds(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        """Returns what the model takes to compute from these inputs with some tensors replaced."""
        feeds = dict(inputs)
        for name, kind in self._replaceable.items():
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            feeds[f"{name}/{_FLAG}"] = np.array(name in replaced)
            feeds[f"{name}/{_REPLACEMENT}"] = np.ascontiguousarray(replaced.get(name, np.zeros((), dtype)), dtype)
        return feeds

    def serialize(self, with_weights: bool = False) -> bytes:
        """Returns the model. External weights stay in their files unless `with_weights` is set."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        if with_weights:
            onnx.load_external_data_for_model(model, str(self._path.parent))
        nodes = []
        for node in model.graph.node:
            chosen = [name for name in node.output if name in self._replaceable]
            node.output[:] = [f"{name}/{_COMPUTED}" if name in chosen else name for name in node.output]
            nodes += [node.SerializeToString()]
            nodes += [_choice(name, self._replaceable[name]).SerializeToString() for name in chosen]
        del model.graph.node[:], model.graph.output[:], model.graph.value_info[:]
        model.graph.node.extend(onnx.NodeProto.FromString(node) for node in nodes)
        for name, kind in self._replaceable.items():
            model.graph.input.append(helper.make_tensor_value_info(f"{name}/{_FLAG}", TensorProto.BOOL, []))
            model.graph.input.append(_declare_output(f"{name}/{_REPLACEMENT}", kind))
        # Without a type ONNX Runtime infers it, whatever the operator.
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.names)
        serialized: bytes = model.SerializeToString()
        return serialized

    def as_read(self, computed: Mapping[str, Array]) -> Arrays:
        """Returns the computed tensors; tensors that are rounded to integers before their use are returned rounded.

        Static quantization folds an activation into the rounding: the tensor before the rounding is not a layer's
        output.
        """
        return {name: computed[self._read_as.get(name, name)] for name in self.names}

    @cached_property
    def _read_as(self) -> dict[str, str]:
        """The tensor that stands for another one wherever that is read: rounded to integers, and as floats again."""
        readers = dict[str, list[onnx.NodeProto]]()
        for node in self._model.graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        outputs = {value.name for value in self._model.graph.output}
        found = {}
        for name in self.names:
            steps = readers.get(name, [])
            if len(steps) != 1 or steps[0].op_type != "QuantizeLinear" or name in outputs:
                continue
            floats = [node for node in readers.get(steps[0].output[0], []) if node.op_type == "DequantizeLinear"]
            if floats and list(floats[0].input)[1:] == list(steps[0].input)[1:]:
                found[name] = floats[0].output[0]
        return found

    @cached_property
    def conditions(self) -> list[str]:
        """Conditions of the graph's `If`s, without those in bodies of others."""
        constants = {tensor.name for tensor in self._model.graph.initializer}
        asked = (node.input[0] for node in self._model.graph.node if node.op_type == "If")
        return [name for name in dict.fromkeys(asked) if name not in constants]

    def serialized_conditions(self) -> bytes:
        """Returns the model that computes the conditions, and nothing that they do not need."""
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        needed, kept = set(self.conditions), list[onnx.NodeProto]()
        for node in reversed(self._model.graph.node):
            if needed.intersection(node.output):
                needed.update(needed_names(node))
                kept.insert(0, node)
        kept += [helper.make_node("Identity", [name], [f"{name}/{_COMPUTED}"]) for name in self.conditions]
        constants = [tensor for tensor in self._model.graph.initializer if tensor.name in needed]
        del model.graph.node[:], model.graph.initializer[:], model.graph.output[:], model.graph.value_info[:]
        model.graph.node.extend(kept)
        model.graph.initializer.extend(constants)
        model.graph.output.extend(onnx.ValueInfoProto(name=f"{name}/{_COMPUTED}") for name in self.conditions)
        serialized: bytes = model.SerializeToString()
        return serialized

    def weights(self) -> Mapping[str, Array]:
        """Returns the constants of the graph and of the bodies in it, the empty ones aside; each is read when asked.

        A weight comes as Keras has it, whatever way the file stores it. The numbers that constants of integers stand
        for, and the steps between these, come under the names of the constants after `NUMBERS` and `STEPS`. Integers
        and booleans come after `INTEGERS`.
        """
        known = [tensor for tensor in _constants(self._model.graph) if 0 not in tensor.dims]
        tensors = {each.name: each for each in known if each.data_type in _NUMBERS}
        tensors |= {f"{INTEGERS}{each.name}": each for each in known if each.data_type in _INTEGERS}
        texts = {entry.key: entry.value for entry in self._model.metadata_props}
        layouts = layouts_from_json(texts.get(LAYOUTS_KEY, "{}"))

        quantized = {f"{NUMBERS}{name}": each for name, each in quantized_constants(self._model.graph).items()}
        quantized |= {f"{STEPS}{each.name}": each for each in quantized.values()}
        every = {tensor.name: tensor for tensor in self._model.graph.initializer}

        def read(name: str) -> Array:
            if name in quantized:
                numbers, steps = quantized[name].numbers(lambda each: self._read_constant(every[each]))
                return (numbers if name.startswith(NUMBERS) else steps).astype(np.float32)
            stored = self._read_constant(tensors[name])
            layout = layouts.get(name)
            return layout.restore(stored) if layout and stored.shape == layout.shapes[-1] else stored

        return LazyArrays([*tensors, *quantized], read)

    def _read_constant(self, tensor: onnx.TensorProto) -> Array:
        """Returns a constant; of a file beside the model only the pages that are looked at are read."""
        if not external_data_helper.uses_external_data(tensor):
            return numpy_helper.to_array(tensor)
        place = external_data_helper.ExternalDataInfo(tensor)
        if tensor.data_type in _PACKED:
            whole = onnx.TensorProto()
            whole.CopyFrom(tensor)
            external_data_helper.load_external_data_for_tensor(whole, str(self._path.parent))
            return numpy_helper.to_array(whole)
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        shape = tuple(tensor.dims)
        return np.memmap(external_file(self._path, place.location), dtype, "r", int(place.offset or 0), shape)

    def float_dtypes(self) -> tuple[str, ...]:
        """Returns the floating-point types of what is computed."""
        kinds = set(self._types.values()).intersection(_FLOATS)
        return tuple(sorted(helper.tensor_dtype_to_np_dtype(kind).name for kind in kinds))

    @cached_property
    def _types(self) -> dict[str, int]:
        """The type of each tensor, by name, as far as ONNX can infer it."""
        graph, model = self._model.graph, self._model
        kinds = {each.name: each.data_type for each in graph.initializer}
        declared = {each.name for each in graph.value_info}
        products = [node for node in graph.node if node.op_type in _FLOAT_PRODUCTS and node.input[2] in kinds]
        products = [node for node in products if node.output[0] not in declared]
        if products:
            model = onnx.ModelProto()
            model.CopyFrom(self._model)
            model.graph.value_info.extend(_declare_output(node.output[0], kinds[node.input[2]]) for node in products)
        graph = onnx.shape_inference.infer_shapes(model).graph
        return {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}

    @cached_property
    def _replaceable(self) -> dict[str, int]:
        """The type of each tensor that can be replaced."""
        return {name: self._types[name] for name in self.names if self._types.get(name) in _FLOATS}


def _choice(name: str, kind: int) -> onnx.NodeProto:
    """Returns the node that lets through a tensor as it was computed, or its replacement."""

    def body(source: str, result: str) -> onnx.GraphProto:
        node = helper.make_node("Identity", [source], [result])
        return helper.make_graph([node], result, [], [_declare_output(result, kind)])

    return helper.make_node(
        "If",
        [f"{name}/{_FLAG}"],
        [name],
        then_branch=body(f"{name}/{_REPLACEMENT}", f"{name}/then"),
        else_branch=body(f"{name}/{_COMPUTED}", f"{name}/else"),
    )


def _declare_output(name: str, kind: int) -> onnx.ValueInfoProto:
    value = onnx.ValueInfoProto(name=name)
    value.type.tensor_type.elem_type = kind
    return value


def _constants(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    for each in all_graphs(graph):
        yield from each.initializer
        for node in each.node:
            for attribute in node.attribute:
                if node.op_type == "Constant" and attribute.name == "value":
                    tensor = onnx.TensorProto()
                    tensor.CopyFrom(attribute.t)
                    tensor.name = node.output[0]
                    yield tensor
