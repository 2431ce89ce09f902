"""Normalizations that an exporter has folded into the layers before them: at inference each pair is one affine map."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keras_pe.export.model.folding import FOLDED_KEY, Folding, foldings_from_json, is_foldable, kernel_of
from keras_pe.export.model.signature.portable_names import matched_paths
from keras_pe.export.model.watch.recording import LayerCall, layer_paths
from keras_pe.export.parity.diagnosis.recorded_outputs import content_key
from keras_pe.export.results import Array
from keras_pe.export.runtimes.lazy_arrays import LazyArrays


def told_pairs(model: Any, metadata: Mapping[str, str]) -> list[tuple[Any, Any]]:
    """Returns layers, each with the normalization that a file says it has folded into it."""
    layers = dict(layer_paths(model))
    told = foldings_from_json(metadata.get(FOLDED_KEY, "{}"))
    names = {other: path for path, other in matched_paths(layers, [*told, *told.values()]).items()}
    pairs = [(layers.get(names.get(one, "")), layers.get(names.get(other, ""))) for one, other in told.items()]
    return [pair for pair in pairs if is_foldable(*pair)]


def foldable_pairs(calls: Sequence[LayerCall]) -> list[tuple[Any, Any]]:
    """Returns layers, each with the normalization that alone is given what it returns.

    Args:
        calls: Of the model, recorded in one run.
    """
    given: dict[bytes, list[LayerCall]] = {}
    for call in calls:
        for key in {content_key(array) for array in call.inputs}:
            given.setdefault(key, []).append(call)
    pairs = []
    for call in calls:
        users = given.get(content_key(call.outputs[0]), []) if call.outputs else []
        # A model within the model is given what its first layer is given.
        inner = [each for each in users if not any(other.path.startswith(f"{each.path}/") for other in users)]
        if len(inner) == 1 and is_foldable(call.layer, inner[0].layer):
            pairs.append((call.layer, inner[0].layer))
    return pairs


def folded_weights(pairs: Iterable[tuple[Any, Any]]) -> tuple[Mapping[str, Array], set[str]]:
    """Returns the weights as they stand in an artifact, and the paths of those that do not stand there any more.

    Args:
        pairs: Layers, each with the normalization that was folded into it. They are those of `is_foldable`.
    """
    stored: dict[str, Callable[[], Array]] = {}
    gone: set[str] = set()
    for folding in (Folding(*pair) for pair in pairs):
        stored[kernel_of(folding.layer).path] = folding.kernel
        stored[folding.bias_owner.path] = folding.bias
        gone |= folding.gone
    return LazyArrays(stored, lambda path: stored[path]()), gone
