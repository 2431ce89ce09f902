"""Causes that are proved by doing: the Keras model, made wrong on purpose, gives the artifact's numbers."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from keras_pe.export.model.keras_internals import all_layers
from keras_pe.export.parity.diagnosis.causes.lengths import agrees_up_to
from keras_pe.export.parity.diagnosis.probe import Evidence, distance
from keras_pe.export.parity.results import Array, Finding
from keras_pe.signal import timing_signal

_EXPLAINS = 0.02  # A wrong model explains a difference if it leaves at most this share of it.
_MOST_WEIGHTS = 64


def encoding_variant(evidence: Evidence) -> Iterator[Finding]:
    """Another layout, schedule or start in a position encoding, or a table that ends early."""
    if evidence.keras is None:
        return
    import keras_pe

    layers = [x for x in all_layers(evidence.keras.model) if isinstance(x, keras_pe.SinusoidalPositionEncoding)]
    tries: list[tuple[Finding, AbstractContextManager[None]]] = []
    for layer in layers:
        if isinstance(layer.start_index, int):
            for cause, text, variant in _variants(layer, evidence):
                tries.append((Finding(cause, text, layer.name), _encoding(layer, variant)))
    yield from _first_that_explains(evidence, tries)


def dropped_mask(evidence: Evidence) -> Iterator[Finding]:
    """A mask that the artifact does not apply."""
    if evidence.keras is None:
        return
    finding = Finding("dropped mask", "Without its masks Keras gives the artifact's numbers.", evidence.born_in())
    yield from _first_that_explains(evidence, [(finding, _without_masks())])


def weight_variant(evidence: Evidence) -> Iterator[Finding]:
    """A weight that is transposed, or has the other sign."""
    if evidence.keras is None:
        return
    layer = evidence.born_in()
    weights = [v for v in evidence.keras.model.weights if layer is None or f"{layer}/" in f"{v.path}/"]
    tries: list[tuple[Finding, AbstractContextManager[None]]] = []
    for weight in weights[:_MOST_WEIGHTS]:
        value = np.asarray(weight.numpy(), np.float64)
        owner = layer or weight.path.rpartition("/")[0]
        for axes, turned in _transposes(value):
            text = f"With weight {weight.path!r} transposed to {axes} Keras gives the artifact's numbers."
            tries.append((Finding("transposed axes", text, owner), _weight(weight, turned)))
        text = f"With weight {weight.path!r} negated Keras gives the artifact's numbers."
        tries.append((Finding("flipped sign", text, owner), _weight(weight, -value)))
    yield from _first_that_explains(evidence, tries)


def _first_that_explains(
    evidence: Evidence, tries: list[tuple[Finding, AbstractContextManager[None]]]
) -> Iterator[Finding]:
    """Yields the first finding under whose context Keras gives the artifact's numbers."""
    case = _telling_case(evidence)
    if case is None or evidence.keras is None:
        return
    inputs, expected, actual = case
    fault = max(distance(actual[name], expected[name]) for name in expected)
    if not 0 < fault < np.inf:
        return
    for finding, context in tries:
        with context:
            altered = evidence.expect(inputs)
        if altered is None or any(name not in actual for name in altered):
            continue
        left = max(distance(actual[name], altered[name]) for name in altered)
        if left <= _EXPLAINS * fault:
            text = f"{finding.evidence} The difference falls from {fault:.1e} to {left:.1e}."
            yield Finding(finding.cause, text, finding.layer)
            return


def _telling_case(evidence: Evidence) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]] | None:
    """Returns inputs, expected and actual of the failing case that tells most: not the shortest, but a small one."""
    usable = [
        (dict(expectation.case.inputs), dict(expectation.outputs or {}), dict(answer))
        for _, expectation, answer in evidence.failing()
        if all(name in answer for name in expectation.outputs or {})
        and all(np.isfinite(distance(answer[n], e)) for n, e in (expectation.outputs or {}).items())
    ]
    by_size = sorted(usable, key=lambda row: sum(array.size for array in row[0].values()))
    return by_size[len(by_size) // 2] if by_size else None


def _variants(layer: Any, evidence: Evidence) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields cause, text and what to change about an encoding."""
    layout = "interleaved" if layer.layout == "concatenated" else "concatenated"
    yield "wrong layout", f"With layout={layout!r} Keras gives the artifact's numbers.", {"layout": layout}
    for k in [k for size in range(1, 9) for k in (size, -size)]:
        text = f"With start_index={layer.start_index + k} ({k:+d}) Keras gives the artifact's numbers."
        yield "start index off", text, {"offset": k}
    if layer.timescales is None:
        endpoint: dict[str, Any] = {"endpoint": not layer.endpoint}
        for change in (endpoint, {**endpoint, "layout": layout}, *({**endpoint, "offset": k} for k in (1, 2))):
            said = ", ".join(f"{name}={value!r}" for name, value in change.items())
            yield "other convention", f"With {said} Keras gives the artifact's numbers.", change
    end = agrees_up_to(evidence)
    if end is not None:
        text = f"With a table that ends at position {end - 1} Keras gives the artifact's numbers."
        yield "clamped table", text, {"end": end}


@contextmanager
def _encoding(layer: Any, change: dict[str, Any]) -> Iterator[None]:
    """Has one encoding compute another signal while the context is open."""
    import keras

    kind, right = type(layer), type(layer)._axis_signal

    def wrong(self: Any, encoding: Any, length: Any, positions: Any) -> Any:
        if self is not layer:
            return right(self, encoding, length, positions)
        where = np.arange(int(length), dtype=np.float64)
        if positions is not None:
            where = keras.ops.convert_to_numpy(positions.whole).astype(np.float64)
            if positions.fraction is not None:
                where = where + keras.ops.convert_to_numpy(positions.fraction)
        signal = timing_signal(
            np.minimum(where + change.get("offset", 0), change.get("end", np.inf) - 1) + layer.start_index,
            layer._block,
            layer.min_timescale,
            layer.max_timescale,
            layout=change.get("layout", layer.layout),
            endpoint=change.get("endpoint", layer.endpoint),
            timescales=layer.timescales,
        )
        return keras.ops.convert_to_tensor(signal.astype(layer._signal_dtype))

    with patch.object(kind, "_axis_signal", wrong):
        yield


@contextmanager
def _without_masks() -> Iterator[None]:
    import keras

    def no_mask(layer: Any, inputs: Any, previous: Any = None) -> None:
        return None

    with (
        patch.object(keras.layers.Embedding, "compute_mask", no_mask),
        patch.object(keras.layers.Masking, "compute_mask", no_mask),
    ):
        yield


@contextmanager
def _weight(variable: Any, value: Array) -> Iterator[None]:
    before = variable.numpy()
    variable.assign(value)
    try:
        yield
    finally:
        variable.assign(before)


def _transposes(value: Array) -> Iterator[tuple[list[int], Array]]:
    """Yields the transposes of a weight that have its shape."""
    for one in range(value.ndim):
        for other in range(one + 1, value.ndim):
            axes = list(range(value.ndim))
            axes[one], axes[other] = other, one
            if value.shape[one] == value.shape[other] > 1:
                yield axes, value.transpose(axes)
