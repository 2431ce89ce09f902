"""Runs an ONNX file with any choice of its computed tensors rounded to integers, the others as floats."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from keras_pe.export.artifacts.onnx_model import layer_of, weight_files
from keras_pe.export.artifacts.quantized_tensors import plain_name, value_limits
from keras_pe.export.runtimes.float_twin import FloatTwin, NothingRoundedError, RoundedTensor
from keras_pe.export.runtimes.integer_operators import FLOAT_SUFFIX, replace_integer_operators
from keras_pe.export.runtimes.runtime import Array, Arrays

_PASSING = frozenset({
    *("DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Resize", "Slice"),
    *("SpaceToDepth", "Split", "Squeeze", "Transpose", "Unsqueeze"),
})  # fmt: skip
"""Operators that pass integers on from their first input."""


class OnnxFloatTwin(FloatTwin):
    """A quantized ONNX file that runs in floats, and rounds the tensors that a caller chooses."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            NothingRoundedError: If the file rounds no computed tensor in a pair of rounding and its inverse.
        """
        import onnxruntime

        weight_files(path)  # refuses a file that names others outside its folder
        model = onnx.load(path)
        model = replace_integer_operators(model)
        graph = model.graph
        self._constants = {each.name: each for each in graph.initializer}
        self._producers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
        rounding = [node for node in graph.node if self._is_rounding(node)]
        users = [node for each in rounding for node in self._inverses(each.output[0])]
        inverse = {node.output[0] for node in users if node.op_type == "DequantizeLinear"}  # others are products
        self.tensors = tuple(map(self._describe, rounding))
        if not rounding:
            raise NothingRoundedError
        nodes: list[onnx.NodeProto] = []
        chosen = {node.output[0] for node in rounding}
        for node in graph.node:
            if node.output and node.output[0] in chosen:
                nodes += _switch(node)
            elif node.output and node.output[0] in inverse:
                nodes.append(helper.make_node("Identity", [node.input[0]], [node.output[0]], node.name))
            else:
                nodes.append(node)
        self._outputs = [value.name for value in graph.output]
        wanted = [name for each in self.tensors for name in (each.source, *each.summands)]
        self._sources = [name for name in dict.fromkeys(wanted) if name in self._producers]
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:], graph.value_info[:]
        graph.node.extend(copies)
        for each in self.tensors:
            graph.input.append(helper.make_tensor_value_info(f"{each.key}/is_rounded", TensorProto.BOOL, []))
            for end in ("low", "high"):
                graph.input.append(helper.make_tensor_value_info(f"{each.key}/{end}", TensorProto.FLOAT, []))
        extra = [name for name in self._sources if name not in self._outputs]
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra)  # ONNX Runtime infers the types
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(
        self,
        inputs: Mapping[str, Array],
        rounded: Collection[str] = (),
        cut: Mapping[str, tuple[float, float]] | None = None,
        *,
        with_tensors: bool = False,
    ) -> tuple[Arrays, Arrays]:
        feeds = {name: np.asarray(array) for name, array in inputs.items()}
        for each in self.tensors:
            low, high = (cut or {}).get(each.key, (-np.inf, np.inf))
            feeds[f"{each.key}/is_rounded"] = np.array(each.key in rounded)
            feeds[f"{each.key}/low"], feeds[f"{each.key}/high"] = np.array(low, np.float32), np.array(high, np.float32)
        names = list(dict.fromkeys([*self._outputs, *(self._sources if with_tensors else ())]))
        found = dict(zip(names, self._session.run(names, feeds), strict=True))
        outputs = {name: found[name] for name in self._outputs}
        if not with_tensors:
            return outputs, {}
        known = found | {name: np.asarray(array) for name, array in inputs.items()}
        summands = {name: self._number(name, known) for each in self.tensors for name in each.summands}
        own = {each.key: known[each.source] for each in self.tensors}
        return outputs, {name: array for name, array in summands.items() if array is not None} | own

    def _number(self, name: str, known: Mapping[str, Array]) -> Array | None:
        if name in self._constants:
            return self._read(name)
        return known.get(name)

    def _is_rounding(self, node: onnx.NodeProto) -> bool:
        """Whether a node rounds a computed tensor of floats, and everything that reads its integers undoes that."""
        if node.op_type not in ("QuantizeLinear", "DynamicQuantizeLinear") or node.input[0] in self._constants:
            return False
        if node.op_type == "DynamicQuantizeLinear":
            return True
        if any(name and name not in self._constants for name in node.input[1:]):
            return False
        inverses = list(self._inverses(node.output[0]))
        own = self._numbers(node)
        return bool(inverses) and all(
            each.op_type == "DequantizeLinear"
            and all(np.array_equal(one, other) for one, other in zip(own, self._numbers(each), strict=True))
            for each in inverses
        )

    def _numbers(self, node: onnx.NodeProto) -> tuple[Array, Array]:
        scale, zero = node.input[1], [*node.input, ""][2]
        found = [self._read(name) if name in self._constants else np.array(np.nan) for name in (scale, zero) if name]
        return found[0], (found[1] if len(found) > 1 else np.zeros(()))

    def _read(self, name: str) -> Array:
        return numpy_helper.to_array(self._constants[name])

    def _inverses(self, name: str) -> Iterator[onnx.NodeProto]:
        """Yields the nodes that use some integers. Nodes that only pass integers on are left out."""
        for node in self._readers.get(name, []):
            if node.op_type in _PASSING and node.input[0] == name:
                for output in node.output:
                    yield from self._inverses(output)
            elif node.op_type != "DynamicQuantizeLinear" and name in node.input[:1]:
                yield node

    def _describe(self, node: onnx.NodeProto) -> RoundedTensor:
        source, key = node.input[0], node.output[0]
        before = self._producers.get(source)
        name = plain_name(source.removesuffix(FLOAT_SUFFIX))
        path = name if before is None or not before.name.strip("/") else before.name.strip("/")
        is_dynamic = node.op_type == "DynamicQuantizeLinear"
        scale, limits, dtype = None, None, "uint8"
        if not is_dynamic:
            scale, zero = self._numbers(node)
            kinds = {each.name: each.i for each in node.attribute}
            number = kinds.get("output_dtype") or TensorProto.UINT8
            if len(node.input) > 2 and node.input[2]:
                number = self._constants[node.input[2]].data_type
            dtype = str(helper.tensor_dtype_to_np_dtype(number).name)
            scale = np.asarray(scale, np.float64)
            limits = value_limits(dtype, scale, np.asarray(zero, np.float64))
        axis = next((each.i for each in node.attribute if each.name == "axis"), 1)
        taken = [name for each in self._inverses(key) for name in each.output[:1]]
        readers = [
            (reader.op_type, list(reader.input).index(name)) for name in taken for reader in self._readers.get(name, [])
        ]
        return RoundedTensor(
            key,
            name,
            "" if before is None else layer_of(path),
            source,
            "" if before is None else before.op_type,
            "" if before is None else before.name,
            () if before is None else tuple(before.input),
            tuple(dict.fromkeys(readers)),
            dtype,
            scale,
            limits,
            axis,
        )


def _switch(node: onnx.NodeProto) -> Sequence[onnx.NodeProto]:
    """Returns the nodes that pass floats on in place of integers, rounded if a flag is set, else between two limits."""
    key, source = node.output[0], node.input[0]
    integers, rounded, limited = (f"{key}/{each}" for each in ("integers", "rounded", "limited"))
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type == "DynamicQuantizeLinear":
        scale, zero = f"{key}/scale", f"{key}/zero"
        first = helper.make_node(node.op_type, [source], [integers, scale, zero])
        second = helper.make_node("DequantizeLinear", [integers, scale, zero], [rounded])
    else:
        first = helper.make_node(node.op_type, list(node.input), [integers], domain=node.domain, **attributes)
        kept = {name: value for name, value in attributes.items() if name in ("axis", "block_size")}
        second = helper.make_node(
            "DequantizeLinear", [integers, *node.input[1:]], [rounded], domain=node.domain, **kept
        )
    return [
        first,
        second,
        helper.make_node("Clip", [source, f"{key}/low", f"{key}/high"], [limited]),
        helper.make_node("Where", [f"{key}/is_rounded", rounded, limited], [key]),
    ]
