"""Edits of the indices from a lookup, a hash or a discretization, read back from the rows of the table after it."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.parity.diagnosis.edits import Edit, Edits, edits_of_makers
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array, with_attributes
from keras_pe.export.parity.diagnosis.sites.other_values import other_value
from keras_pe.export.results import Array, Cause, OtherValue

_MOST_SHOWN = 4
_MOST_DIFFERENCES = 2**24  # differences between values of vectors and of rows that are computed
_PARAMETERS = {
    "Hashing": "salt",
    "StringLookup": "vocabulary",
    "IntegerLookup": "vocabulary",
    "Discretization": "bin_boundaries",
}
"""The argument that determines the indices of each layer."""
_LOOKUPS = ("StringLookup", "IntegerLookup")
_COUNTED = ("one_hot", "multi_hot", "count")
_SALTS = (None, *range(17), 42, 133, 137, 1337)
_MOST_BINS = 1024
_MOST_WORDS = 256  # largest vocabulary, since each word needs two edits
_MOST_UNKNOWN = 3  # largest number of indices for unknown words
_MASKS = {"StringLookup": ("", "[MASK]", "[PAD]", "<pad>", "<PAD>"), "IntegerLookup": (0, -1)}
_UNUSED = {"StringLookup": "\0", "IntegerLookup": -(2**30) - 1}  # mask tokens that no input is


def other_indices(fault: LayerFault) -> Edits:
    """Yields the rows of a table for other indices. The reported layer is the one that computes the indices."""
    shown = _rows_shown(fault)
    own = fault.call.inputs[0] if fault.call.inputs else None
    if shown is not None and own is not None and shown.shape == own.shape and len(np.unique(shown - own)) > 1:
        yield from shifted_indices(fault)


def shifted_indices(fault: LayerFault) -> Edits:
    """Yields the rows of a table for other indices, even for indices that are all shifted alike in this case.

    A change of the input explains those if all are shifted alike in the other cases, too.
    """
    for maker in fault.around.made_by.values():
        shown, own = _rows_shown(fault), fault.call.inputs[0]
        is_unlike = shown is None or shown.shape != own.shape or np.array_equal(shown, own)
        if shown is None or is_unlike or maker.outputs[0].dtype.kind not in "iu":
            continue
        name = _PARAMETERS.get(type(maker.layer).__name__, "indices")
        argument = _argument_of_hash(maker, shown)
        parameters = (argument,) if argument else tuple(dict.fromkeys(_changed_values(maker.inputs[0], own, shown)))
        name = argument.name if argument else name
        description = ", ".join(f"{each.name} is {each.artifact} instead of {each.model}" for each in parameters)
        text = f"the rows of other indices: the {description}"
        path = maker.layer_path
        yield Edit(Cause.attribute(name), text, _table_rows, is_output=True, layer=path, parameters=parameters)


def _argument_of_hash(maker: LayerCall, shown: Array) -> OtherValue | None:
    """Returns the usual salt or number of bins for which a hash gives the artifact's indices, or None."""
    if type(maker.layer).__name__ != "Hashing" or len(maker.outputs) != 1:
        return None
    config, called = maker.layer.get_config(), LayerFault(maker, 0, 0.0)
    bins = range(int(shown.max()) + 1, min(4 * config["num_bins"], _MOST_BINS))
    for name, values in {"salt": _SALTS, "num_bins": bins}.items():
        for value in (each for each in values if each != config[name]):
            if np.array_equal(with_attributes(called, {name: value}), shown):
                own = config[name]
                return OtherValue(name, tuple(own) if isinstance(own, list) else own, value)
    return None


def other_counts(fault: LayerFault) -> Edits:
    """Yields counts of other indices, if the layer counts indices and the artifact has counts too."""
    name, own, shown = _PARAMETERS.get(type(fault.call.layer).__name__), fault.expected, fault.actual
    if name is None or shown is None or getattr(fault.call.layer, "output_mode", "int") not in _COUNTED:
        return
    row = int((own != shown).any(axis=tuple(range(1, own.ndim))).argmax())
    values = (tuple(np.flatnonzero(each[row]).tolist()) for each in (own, shown))
    parameters = (OtherValue(f"indices in row {row}", *values),)
    description = f"the counts of other indices: in row {row} {parameters[0].artifact} instead of {parameters[0].model}"
    yield Edit(Cause.attribute(name), description, _counts, is_output=True, parameters=parameters)


def _counts(fault: LayerFault) -> Array | None:
    """Returns the artifact's values, if the layer may return such counts; else None."""
    shown, mode = fault.actual, fault.call.layer.output_mode
    if shown is None or (shown < 0).any() or (shown != np.rint(shown)).any():
        return None
    own, sums = fault.expected.sum(axis=-1), shown.sum(axis=-1)
    is_counted = (shown <= 1).all() and (sums <= fault.call.inputs[0].shape[-1]).all() and (sums > 0).all()
    return shown if (np.array_equal(sums, own) if mode != "multi_hot" else is_counted) else None


def other_vocabularies(fault: LayerFault) -> Edits:
    """Yields a lookup, or the layer after it, with a missing or unknown word, or with words in another order."""
    if fault.through is None:
        yield from edits_of_makers(fault, _vocabulary_edits, "fiu")
    yield from _vocabulary_edits(fault)


def _vocabulary_edits(fault: LayerFault) -> Iterator[Edit]:
    """Yields the edits of a lookup's indices, or of their counts, for each other vocabulary that it may have."""
    layer = fault.call.layer
    if type(layer).__name__ not in _LOOKUPS:
        return
    yield from _special_tokens(layer)
    for description, changed, places in _other_words(layer):
        compute = partial(_move, places, layer.output_mode)
        yield Edit(Cause.attribute("vocabulary"), description, compute, parameters=changed)


def _special_tokens(layer: Any) -> Iterator[Edit]:
    """Yields a lookup with another mask token, and with other numbers of indices for unknown words.

    The value of a mask token is not reported if no input is that token. Then the indices of the words show the token.
    """
    if layer.output_mode != "int":
        return
    kind, words = type(layer).__name__, layer.get_vocabulary(include_special_tokens=False)
    first = len(layer.get_vocabulary()) - len(words)
    if layer.mask_token is None:
        indices = first + np.arange(len(words)) + 1
        change = {"mask_token": _UNUSED[kind], "vocabulary": words}
        parameters = _changed_indices(words, first, np.append(np.zeros(first, int), indices))
        compute = partial(with_attributes, change=change)
        yield Edit(Cause.attribute("mask_token"), "with a mask token at index 0", compute, parameters=parameters)
    for name, others in {"mask_token": (None, *_MASKS[kind]), "num_oov_indices": range(_MOST_UNKNOWN + 1)}.items():
        for other in (each for each in others if each != getattr(layer, name)):
            yield other_value(name, getattr(layer, name), other, {name: other, "vocabulary": words})


def _move(places: Array, mode: str, fault: LayerFault) -> Array:
    """Returns a call's indices mapped to other indices, or its counts with their columns moved."""
    own = fault.expected
    if mode == "int":
        inside = np.clip(own, 0, len(places) - 1)
        return np.where(inside == own, places[inside], own).astype(own.dtype)
    moved = np.zeros_like(own)
    np.add.at(np.moveaxis(moved, -1, 0), places, np.moveaxis(own, -1, 0)[: len(places)])
    return moved if mode in ("count", "tf_idf") else np.minimum(moved, 1).astype(own.dtype)


def _other_words(layer: Any) -> Iterator[tuple[str, tuple[OtherValue, ...], Array]]:
    """Yields the text of each other vocabulary, its changed indices, and the new index of each index."""
    words = layer.get_vocabulary(include_special_tokens=False)
    first = len(layer.get_vocabulary()) - len(words)
    if not 0 < len(words) <= _MOST_WORDS:
        return
    unknown = int(layer.mask_token is not None and layer.output_mode == "int")  # the mask token has index 0
    own = np.arange(first + len(words))
    for number, word in enumerate(words):
        lost = own - (own > first + number)
        lost[first + number] = unknown
        yield f"without {_plain(word)!r} in its vocabulary", _changed_indices(words, first, lost), lost
        replaced = own.copy()
        replaced[first + number] = unknown
        yield (
            f"with another word for {_plain(word)!r} in its vocabulary",
            _changed_indices(words, first, replaced),
            replaced,
        )
    orders = {"in reverse order": range(len(words))[::-1], "sorted": np.argsort(np.argsort(words))}
    for description, order in orders.items():
        places = np.append(own[:first], first + np.array(order))
        yield f"with its vocabulary {description}", _changed_indices(words, first, places), places


def _changed_indices(words: Sequence[Any], first: int, places: Array) -> tuple[OtherValue, ...]:
    """Returns the first words that get another index. The index `first` is that of the first word."""
    changed = [number for number in range(len(words)) if places[first + number] != first + number][:_MOST_SHOWN]
    return tuple(OtherValue(f"index of {_plain(words[n])!r}", first + n, int(places[first + n])) for n in changed)


def _changed_values(values: Array, own: Array, shown: Array) -> Iterator[OtherValue]:
    """Yields the first values with another index."""
    for place in np.argwhere(own != shown)[:_MOST_SHOWN]:
        at = tuple(place)
        what = f"index of {_plain(values[at])!r}" if values.shape == own.shape else f"index at {place.tolist()}"
        yield OtherValue(what, int(own[at]), int(shown[at]))


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _table_rows(fault: LayerFault) -> Array | None:
    """Returns the artifact's values, if each of its rows is a row of the table; else None."""
    return None if _rows_shown(fault) is None else fault.actual


def _rows_shown(fault: LayerFault) -> Array | None:
    """Returns the table row of each vector in an embedding's output; None if a vector is not a row."""
    table = getattr(fault.call.layer, "embeddings", None)
    if table is None or fault.actual is None or not fault.call.inputs:
        return None
    return rows_in_table(fault.actual, as_array(table), fault.tolerance)


def rows_in_table(vectors: Array, table: Array, tolerance: float) -> Array | None:
    """Returns the row of a table that each vector of an array is; None if a vector is not a row of the table."""
    flat = vectors.reshape(-1, vectors.shape[-1])
    if len(flat) * table.size > _MOST_DIFFERENCES:
        return None
    distances = np.stack([np.abs(table - vector).max(axis=-1) for vector in flat])
    if distances.min(axis=1).max(initial=0.0) > tolerance:
        return None
    found: Array = distances.argmin(axis=1).reshape(vectors.shape[:-1])
    return found
