"""The layer of each operator of a LiteRT file, by the names of its tensors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_pe.export.artifacts.litert_operators import Operator
from keras_pe.export.artifacts.onnx_model import layer_of
from keras_pe.export.model.watch.layer_paths import matched_paths


def operator_layers(operators: Sequence[Operator], layers: Iterable[str]) -> list[str]:
    """Returns the path of each operator's layer. An operator between layers is a layer with its own name.

    Args:
        operators: The operators of a file.
        layers: The paths of the model's layers, if they are known. The traced names differ from them in numbers.
    """
    producers = {tensor.name: operator for operator in operators for tensor in operator.outputs}
    paths = [_traced_path(operator, producers) for operator in operators]
    layers = list(layers)
    roots = {each.partition("/")[0] for each in paths if "/" in each}
    if len(roots) == 1 and not matched_paths(roots, layers):  # the name of the model
        paths = [each.partition("/")[2] or each for each in paths]
    known = matched_paths(dict.fromkeys(prefix for each in paths for prefix in _prefixes(each)), layers)
    return [
        next((known[prefix] for prefix in _prefixes(each) if prefix in known), layer_of(each) or each) for each in paths
    ]


def _traced_path(operator: Operator, producers: Mapping[str, Operator]) -> str:
    """Returns the path of an operator. The result of the file has no path, and the operator before has the layer."""
    seen: list[Any] = []
    while "/" not in operator.path and operator not in seen:
        seen.append(operator)
        before = (producers.get(tensor.name) for tensor in operator.inputs)
        operator = next((each for each in before if each is not None), operator)
    return operator.path


def _prefixes(path: str) -> list[str]:
    """Returns a path and the paths that lead to it, the longest first."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
