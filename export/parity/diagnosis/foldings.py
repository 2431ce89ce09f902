"""Finds normalizations that an exporter has folded, or may have folded, into the weights of layers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from keras_pe.export.model.stored_weights import FOLDED_KEY, Folding, foldings_from_json, is_foldable, kernel_of
from keras_pe.export.model.watch.layer_paths import layer_paths, matched_paths
from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.parity.diagnosis.recorded_cases import content_key
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import LazyArrays


def recorded_foldings(model: Any, metadata: Mapping[str, str]) -> list[Folding]:
    """Returns the normalizations that a file's metadata lists as folded into the layers before them."""
    layers = dict(layer_paths(model))
    stored = foldings_from_json(metadata.get(FOLDED_KEY, "{}"))
    names = {other: path for path, other in matched_paths(layers, [*stored, *stored.values()]).items()}
    pairs = [(layers.get(names.get(one, "")), layers.get(names.get(other, ""))) for one, other in stored.items()]
    return [Folding(*pair) for pair in pairs if is_foldable(*pair)]


def possible_foldings(calls: Sequence[LayerCall]) -> list[Folding]:
    """Returns the normalizations that an exporter may fold: each is the only user of the output of the layer before.

    Args:
        calls: The calls of the model in one run.
    """
    given: dict[bytes, list[LayerCall]] = {}
    for call in calls:
        for key in {content_key(array) for array in call.inputs}:
            given.setdefault(key, []).append(call)
    found = []
    for call in calls:
        users = given.get(content_key(call.outputs[0]), []) if call.outputs else []
        # A nested model has the same input as its first layer, and does not count as another user.
        inner = [each for each in users if not any(other.path.startswith(f"{each.path}/") for other in users)]
        if len(inner) == 1 and is_foldable(call.layer, inner[0].layer):
            found.append(Folding(call.layer, inner[0].layer))
    return found


def folded_weights(foldings: Iterable[Folding]) -> tuple[Mapping[str, Array], set[str]]:
    """Returns the folded weights as an artifact stores them, and the paths of weights that the folding removes."""
    stored: dict[str, Callable[[], Array]] = {}
    gone: set[str] = set()
    for folding in foldings:
        stored |= {kernel_of(folding.layer).path: folding.kernel, folding.bias_owner.path: folding.bias}
        gone |= folding.gone
    return LazyArrays(stored, lambda path: stored[path]()), gone
