"""What an ONNX file is made of, by layer: exporters call a node `path/of/its/layer/Operator`."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.multiplications import Term, added, count_multiplications
from keras_pe.export.artifacts.onnx_model import all_graphs, all_nodes, read_without_weights

UNFUSED_KEY = "keras_pe.unfused"
"""Where a file says what its exporter could not write as one operator: JSON, reasons by operator by layer."""


@dataclass(frozen=True)
class LayerContents:
    """What a file holds of one layer, without the layers inside it.

    Attributes:
        layer: The names that lead to the layer, joined by "/"; empty for what stands between layers.
        operators: How often each operator stands there, those in branches and loops once.
        parameters: The numbers stored for it: weights, tables and other constants. What several layers read counts for
            the first. Integers of 32 and 64 bits, which hold shapes and places, are none.
        nbytes: Bytes of all that is stored for it, these integers included.
        multiplications: Those of its products of matrices, convolutions and recurrences, as a sum:
            `((32, ("batch",)),)` is 32 for each row of a batch. Elementwise ones are left out. None where their number
            does not follow from the sizes of the inputs, as in a loop.
        unfused: What ONNX has one operator for and stands there in several: why, by the name of the operator.
    """

    layer: str
    operators: Mapping[str, int]
    parameters: int
    nbytes: int
    multiplications: tuple[Term, ...] | None
    unfused: Mapping[str, str]


@dataclass
class _Found:
    """What was found of one layer so far."""

    operators: Counter[str] = field(default_factory=Counter)
    terms: list[Term | None] = field(default_factory=list)
    parameters: int = 0
    nbytes: int = 0


def read_contents(path: Path) -> tuple[LayerContents, ...]:
    """Returns what a file holds of each layer, in the order in which they are computed.

    Raises:
        ValueError: With the end of a sentence about the file, if it cannot be read.
    """
    model = read_without_weights(path)
    counts = count_multiplications(model)
    stored = {tensor.name: tensor for graph in all_graphs(model.graph) for tensor in graph.initializer}
    found: dict[str, _Found] = {}
    for node in all_nodes(model.graph):
        layer = found.setdefault(node.name.strip("/").rpartition("/")[0], _Found())
        layer.operators[node.op_type] += 1
        layer.terms += [counts[name] for name in node.output[:1] if name in counts]
        for tensor in [stored.pop(name) for name in dict.fromkeys(node.input) if name in stored]:
            _add(layer, tensor)
    texts = {each.key: each.value for each in model.metadata_props}
    unfused: dict[str, dict[str, str]] = json.loads(texts.get(UNFUSED_KEY, "{}"))
    return tuple(
        LayerContents(
            path, dict(layer.operators), layer.parameters, layer.nbytes, added(layer.terms), unfused.get(path, {})
        )
        for path, layer in found.items()
    )


def _add(layer: _Found, tensor: Any) -> None:
    from onnx import TensorProto, helper

    count = math.prod(tensor.dims)
    if tensor.data_type not in (TensorProto.INT32, TensorProto.INT64):
        layer.parameters += count
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    layer.nbytes += count * dtype.itemsize if dtype.kind != "O" else sum(map(len, tensor.string_data))
