"""Causes that a changed model proves: made wrong on purpose, it gives the artifact's numbers."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from keras_pe.export.model.rebuild.cloning import clone_with
from keras_pe.export.model.watch.keras_internals import all_layers, replaced_attributes
from keras_pe.export.model.watch.state import state_left_alone
from keras_pe.export.parity.diagnosis.probe import Probe, distance
from keras_pe.export.parity.diagnosis.search import EXPLAINS
from keras_pe.export.results import Array, Cause, Finding

Change = Callable[[dict[str, Any]], None]
Changed = contextlib.AbstractContextManager[Any]
"""Gives the changed model, for as long as it is changed."""


def changed_model(probe: Probe) -> Iterator[Finding]:
    """Another layout, schedule or start in a position encoding, masks that are not made, normalization as in training.

    An artifact that cannot be read inside is told by its outputs alone.
    """
    case = _telling_case(probe)
    if case is None or probe.reference.model is None:
        return
    inputs, expected, actual = case
    error = max(distance(actual[name], expected[name]) for name in expected)
    if not 0 < error < np.inf:
        return
    for cause, text, layer, changed in _changes(probe.reference.model):
        probe.budget.check()
        try:
            with state_left_alone(), changed as model:
                altered = probe.reference.predict(model, inputs)  # type: ignore[attr-defined]
        except Exception:  # whatever a layer raises: this change is none that the model takes
            continue
        if any(name not in actual for name in altered):
            continue
        left = max(distance(actual[name], altered[name]) for name in altered)
        if left <= EXPLAINS * error:
            yield Finding(cause, f"{text} The difference falls from {error:.1e} to {left:.1e}.", layer)
            return


def _changes(model: Any) -> Iterator[tuple[Cause, str, str | None, Changed]]:
    """Yields cause, text, layer and the changed model."""
    import keras_pe

    layers = [layer for layer in all_layers(model) if isinstance(layer, keras_pe.SinusoidalPositionEncoding)]
    for layer in layers:
        if isinstance(layer.start_index, int):
            for cause, change in _variants(layer):
                said = ", ".join(f"{name}={value!r}" for name, value in change.items())
                text = f"With {said} Keras gives the artifact's numbers."
                yield cause, text, layer.name, _cloned(model, _of(layer.name, change))
    makes_masks = [layer.name for layer in all_layers(model) if getattr(layer, "mask_zero", False)]
    if makes_masks:
        text = f"Without the masks of {', '.join(map(repr, makes_masks))} Keras gives the artifact's numbers."
        yield Cause.DROPPED_MASK, text, None, _cloned(model, _without_masks)
    normalizations = [layer for layer in all_layers(model) if hasattr(layer, "moving_mean")]
    together = [normalizations] if len(normalizations) > 1 else []
    for chosen in (*together, *([layer] for layer in normalizations)):
        names = ", ".join(repr(layer.name) for layer in chosen)
        text = f"With {names} as in training, by the statistics of the batch, Keras gives the artifact's numbers."
        yield Cause.TRAINING_MODE, text, chosen[0].name, _in_training(model, chosen)


@contextlib.contextmanager
def _cloned(model: Any, change: Change) -> Iterator[Any]:
    """Gives a copy of a model whose configuration is changed."""
    yield clone_with(model, change)


@contextlib.contextmanager
def _in_training(model: Any, layers: Sequence[Any]) -> Iterator[Any]:
    """Gives a model some of whose layers compute as in training."""
    with contextlib.ExitStack() as stack:
        for layer in layers:
            stack.enter_context(replaced_attributes(layer, {"call": partial(_trained, layer.call)}))
        yield model


def _trained(call: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    return call(*args, **{**keywords, "training": True})


def _variants(layer: Any) -> Iterator[tuple[Cause, dict[str, Any]]]:
    layout = "interleaved" if layer.layout == "concatenated" else "concatenated"
    yield Cause.WRONG_LAYOUT, {"layout": layout}
    for k in [k for size in range(1, 5) for k in (size, -size)]:
        yield Cause.START_INDEX_OFF, {"start_index": layer.start_index + k}
    if layer.timescales is None:
        yield Cause.OTHER_CONVENTION, {"endpoint": not layer.endpoint}
        yield Cause.OTHER_CONVENTION, {"endpoint": not layer.endpoint, "layout": layout}


def _of(name: str, change: dict[str, Any]) -> Change:
    def edit(config: dict[str, Any]) -> None:
        if config["config"] and config["config"].get("name") == name and "layout" in config["config"]:
            config["config"].update(change)

    return edit


def _without_masks(config: dict[str, Any]) -> None:
    inner = config["config"]
    if isinstance(inner, dict) and inner.get("mask_zero"):
        inner["mask_zero"] = False


def _telling_case(probe: Probe) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array]] | None:
    """Returns inputs, expected and actual of the failing case that tells most: not the shortest, but a small one."""
    usable = [
        (dict(expectation.case.inputs), dict(expectation.outputs or {}), dict(answer))
        for _, expectation, answer in probe.failing()
        if all(name in answer for name in expectation.outputs or {})
        and all(np.isfinite(distance(answer[n], e)) for n, e in (expectation.outputs or {}).items())
    ]
    by_size = sorted(usable, key=lambda row: sum(array.size for array in row[0].values()))
    return by_size[len(by_size) // 2] if by_size else None
