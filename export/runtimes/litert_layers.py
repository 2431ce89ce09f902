"""The layer of each operator of a LiteRT file, by the names of its tensors."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_pe.export.artifacts.litert_operators import Operator
from keras_pe.export.artifacts.onnx_model import layer_of
from keras_pe.export.model.watch.layer_paths import matched_paths

_NUMBER = re.compile(r"_\d+$")


def operator_layers(operators: Sequence[Operator], layers: Iterable[str]) -> list[str]:
    """Returns the path of each operator's layer. An operator between layers is a layer with its own name.

    Args:
        operators: The operators of a file.
        layers: The paths of the model's layers, if they are known. The traced names differ from them in numbers.
    """
    producers = {tensor.name: operator for operator in operators for tensor in operator.outputs}
    paths = [_traced_path(operator, producers) for operator in operators]
    layers, choices = list(layers), [paths]
    if len({each.partition("/")[0] for each in paths if "/" in each}) == 1:  # most often the name of the model
        choices.insert(0, [each.partition("/")[2] or each for each in paths])
    known, paths = max(
        ((_known_layers(each, layers), each) for each in choices), key=lambda pair: len({*pair[0].values()})
    )
    return [
        next((known[prefix] for prefix in _prefixes(each) if prefix in known), layer_of(each) or each) for each in paths
    ]


def _known_layers(paths: Iterable[str], layers: Sequence[str]) -> Mapping[str, str]:
    """Returns the layer of each path, or path that leads to one, that has a layer.

    A trace adds a number to the name of every layer: "dense_1" may be the layer "dense", and then "dense_1_2" is the
    layer "dense_1". If all names end with a number, the names without it count, unless they match fewer layers.
    """
    paths = list(dict.fromkeys(prefix for each in paths for prefix in _prefixes(each)))
    as_named = matched_paths(paths, layers)
    if not all(_NUMBER.search(each.partition("/")[0]) for each in paths):
        return as_named
    plain = {each: "/".join(_NUMBER.sub("", name) for name in each.split("/")) for each in paths}
    matched = matched_paths(dict.fromkeys(plain.values()), layers)
    as_traced = {each: matched[name] for each, name in plain.items() if name in matched}
    return max(as_traced, as_named, key=lambda known: len({*known.values()}))


def _traced_path(operator: Operator, producers: Mapping[str, Operator]) -> str:
    """Returns the path of an operator. The result of the file has no path: its weight or the operator before has it."""
    seen: list[Any] = []
    while "/" not in operator.path and operator not in seen:
        seen.append(operator)
        before = [producers.get(tensor.name) for tensor in operator.inputs]
        for tensor, producer in zip(operator.inputs, before, strict=True):
            is_weight = tensor.is_stored or (producer is not None and producer.kind == "DEQUANTIZE")
            if is_weight and "/" in tensor.name:
                return tensor.name.partition(";")[0]
        operator = next((each for each in before if each is not None), operator)
    return operator.path


def _prefixes(path: str) -> list[str]:
    """Returns a path and the paths that lead to it, the longest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
