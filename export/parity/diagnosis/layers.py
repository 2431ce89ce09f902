"""Where: the first Keras layer whose output parts, and whether the fault is born in it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keras_pe.export.errors import RuntimeDiedError, RuntimeHungError, RuntimeRefusedError
from keras_pe.export.model.keras_internals import functional_of
from keras_pe.export.model.state import state_left_alone
from keras_pe.export.parity.references.reference import Expectation, KerasReference
from keras_pe.export.parity.results import Array, LayerResult
from keras_pe.export.parity.verdict.judge import Runner
from keras_pe.export.parity.verdict.tolerance import MAX_FACTOR, flat_tolerance, is_float, noise_floor
from keras_pe.export.runtimes.runtime import Arrays

Failure = (RuntimeRefusedError, RuntimeDiedError, RuntimeHungError)


@dataclass(frozen=True)
class _Tap:
    """One layer's output in the Keras model."""

    layer: str
    key: int
    sources: tuple[int, ...]


@dataclass(frozen=True)
class _Match:
    """The artifact's tensor nearest to a Keras tensor, in the Keras tensor's shape."""

    tensor: str
    shape: tuple[int, ...]
    channels_first: bool
    actual: Array
    difference: float


def locate(
    runner: Runner, reference: KerasReference, expectation: Expectation
) -> tuple[tuple[LayerResult, ...], tuple[str, ...]]:
    """Returns the model layer by layer in one case, and the artifact's tensors that are of a 16-bit float type.

    A layer's output is recognised in the artifact by its values: the nearest tensor of its size. That needs no names,
    so it works for any exporter. The artifact is read in a copy, so what it answers as a whole stays what it was.

    Returns:
        Nothing for a model without a graph of layers, and for a runtime that cannot be read inside.
    """
    taps = _taps(reference.model)
    if not taps:
        return (), ()
    try:
        if not runner.tappable:
            return (), ()
        tensors = runner.intermediates(expectation.case.inputs)
    except Failure:
        return (), ()
    expected = _run_taps(reference, reference.model, taps, expectation.case.inputs)
    truth = _run_taps(reference, reference.wide, taps, expectation.case.inputs) if reference.wide else {}
    tensors = {**{name: np.asarray(array) for name, array in expectation.case.inputs.items()}, **tensors}
    found = {tap.key: _find(tap, expected[tap.key], truth.get(tap.key), tensors) for tap in taps}
    results: list[LayerResult] = []
    parted = set[int]()
    for tap in _outward(taps, expected, truth, found):
        match = found[tap.key]
        parted.add(tap.key)
        results.append(_result(tap, match, _allowed(expected[tap.key], truth.get(tap.key)), parted=True))
    named = {result.layer: result for result in results}
    ordered = [
        named.get(tap.layer)
        or _result(tap, found[tap.key], _allowed(expected[tap.key], truth.get(tap.key)), parted=False)
        for tap in taps
        if tap.key in found
    ]
    by_layer = {tap.layer: tap for tap in taps}
    feeds = expectation.case.inputs
    ordered = [
        replace(each, born=_is_born(runner, by_layer[each.layer], found, expected, parted, feeds, each.allowed))
        if each.parted
        else each
        for each in ordered
    ]
    return tuple(ordered), tuple(name for name, array in tensors.items() if array.dtype.name in ("float16", "bfloat16"))


def _taps(model: Any) -> list[_Tap]:
    """Returns the layers of a Functional or Sequential model that have one output each, in the order of computation."""
    functional = functional_of(model)
    if not hasattr(functional, "operations"):
        return []
    taps = []
    for layer in functional.operations:
        try:
            output, sources = layer.output, _flat(layer.input)
        except (AttributeError, ValueError):  # called more than once: it has no one output
            continue
        if hasattr(output, "shape"):
            own = tuple(id(source) for source in sources if id(source) != id(output))
            taps.append(_Tap(layer.name, id(output), own))
    return taps


def _flat(structure: Any) -> list[Any]:
    import keras

    return list(keras.tree.flatten(structure))


def _run_taps(
    reference: KerasReference, model: Any, taps: Sequence[_Tap], inputs: Mapping[str, Array]
) -> dict[int, Array]:
    """Returns the layers' outputs by the key of the tap, from the model or from its rebuild."""
    import keras

    functional = functional_of(model)
    outputs = {layer.name: layer.output for layer in functional.operations if layer.name in {t.layer for t in taps}}
    tapped = keras.Model(functional.input, [outputs[tap.layer] for tap in taps])
    tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
    with state_left_alone():
        values = tapped(*reference.signature.pack(tensors), training=False)
    return {tap.key: keras.ops.convert_to_numpy(value) for tap, value in zip(taps, values, strict=True)}


def _find(tap: _Tap, expected: Array, truth: Array | None, tensors: Arrays) -> _Match | None:
    """Returns the artifact's tensor of a layer: the nearest of all, or if that is not near, of those named after it."""
    nearest = _nearest(expected, tensors)
    if nearest is None or nearest.difference <= _allowed(expected, truth):
        return nearest
    scope = re.compile(rf"(^|/){re.escape(tap.layer)}(_\d+)?(/|:|$)")
    return _nearest(expected, {name: array for name, array in tensors.items() if scope.search(name)}) or nearest


def _nearest(expected: Array, tensors: Arrays) -> _Match | None:
    """Returns the tensor nearest to the expected values: of the same size, its channels last or first."""
    best: _Match | None = None
    forms = [(False, expected.ravel())]
    if expected.ndim in (3, 4, 5):
        forms.append((True, np.moveaxis(expected, -1, 1).ravel()))
    for name, array in tensors.items():
        if (
            array.size != expected.size
            or array.dtype.kind not in "fiub"
            or (array.dtype.kind == "b") != (expected.dtype.kind == "b")
        ):
            continue
        flat = array.ravel().astype(np.float64)
        for channels_first, form in forms:
            with np.errstate(invalid="ignore"):
                apart = np.abs(flat - form.astype(np.float64))
            difference = float(np.where(np.isfinite(apart), apart, 1e300).max(initial=0.0))
            if best is None or difference < best.difference:
                turned = _in_shape(array, expected.shape, channels_first)
                best = _Match(name, array.shape, channels_first, turned, difference)
    return best


def _in_shape(array: Array, shape: tuple[int, ...], channels_first: bool) -> Array:
    if not channels_first:
        return array.reshape(shape)
    return np.moveaxis(array.reshape(shape[0], shape[-1], *shape[1:-1]), 1, -1)


def _allowed(expected: Array, truth: Array | None) -> float:
    if truth is None or truth.dtype != np.float64 or not is_float(expected.dtype):
        return flat_tolerance(expected)
    return MAX_FACTOR * noise_floor(expected, truth)


def _outward(
    taps: Sequence[_Tap], expected: Mapping[int, Array], truth: Mapping[int, Array], found: Mapping[int, _Match | None]
) -> list[_Tap]:
    """Returns the layers that part, from the model's end inwards.

    A layer without its like in the artifact has been merged into the next one. It counts as parted only if the fault
    can have come from it: if every layer it leads to has parted as well.
    """
    consumers: dict[int, list[int]] = {}
    for tap in taps:
        for source in tap.sources:
            consumers.setdefault(source, []).append(tap.key)
    parted: dict[int, _Tap] = {}
    for tap in reversed(taps):
        match = found.get(tap.key)
        if match is None or match.difference <= _allowed(expected[tap.key], truth.get(tap.key)):
            continue
        after = [key for key in consumers.get(tap.key, []) if found.get(key) is not None]
        if not after or any(key in parted for key in after):
            parted[tap.key] = tap
    return list(parted.values())


def _result(tap: _Tap, match: _Match | None, allowed: float, *, parted: bool) -> LayerResult:
    if match is None:
        return LayerResult(tap.layer, None, float("inf"), allowed, parted=False)
    difference = match.difference if match.difference < 1e300 else float("inf")
    return LayerResult(tap.layer, match.tensor, difference, allowed, parted=parted)


def _is_born(
    runner: Runner,
    tap: _Tap,
    found: Mapping[int, _Match | None],
    expected: Mapping[int, Array],
    parted: set[int],
    inputs: Mapping[str, Array],
    allowed: float,
) -> bool | None:
    """Whether a layer that parted is wrong by itself: fed with the reference's inputs it is still wrong."""
    if not parted.intersection(tap.sources):
        return True  # the artifact fed it what the reference did
    match = found[tap.key]
    assert match is not None
    feeds = dict(inputs)
    for source in tap.sources:
        given = found.get(source)
        if given is None:
            return None
        array = expected[source]
        turned = np.moveaxis(array, -1, 1) if given.channels_first else array
        feeds[given.tensor] = turned.reshape(given.shape).astype(given.actual.dtype)
    try:
        again = runner.between(feeds, match.tensor)
    except Failure:
        return None
    if again.size != expected[tap.key].size:
        return None
    turned = _in_shape(again, expected[tap.key].shape, match.channels_first)
    return not np.allclose(turned, expected[tap.key], rtol=0, atol=max(allowed, 1e-6), equal_nan=True)
