"""Detects a decoder whose positions, rotations or mask do not fit the rows of its cache."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.temporary_patches import replaced_attributes
from keras_pe.export.parity.diagnosis.causes.states import FailedCase, FailedStream, explains, failed_cases
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.results import Array, Cause, Finding

_UNSEEN = 4  # positions before the first wrong token in the cases, at which a table or a window may end


def cache_at_fault(probe: Probe) -> Iterator[Finding]:
    """Detects a fault of the positions or the mask: the model with that fault returns the outputs of the artifact."""
    cases, ask = failed_cases(probe), probe.reference.expect_eager

    def fits() -> bool:
        probe.budget.check()
        return all(explains(case, ask(case.inputs)) for case in cases)

    found = _explain(probe.reference.model, cases, fits) if cases else None
    yield from [] if found is None else [found]


def cache_at_fault_in_stream(failed: FailedStream, reference: Reference) -> Finding | None:
    """Returns the finding for a sequence of calls that a fault of the positions or the mask explains, or None.

    Args:
        failed: The sequence.
        reference: The reference.

    Raises:
        OutOfTimeError: If the time of the diagnosis is over.
    """
    return _explain(reference.model, [failed.case], lambda: failed.is_explained_by(reference.expect_eager))


def _explain(decoder: Any, cases: Sequence[FailedCase], fits: Callable[[], bool]) -> Finding | None:
    """Returns the finding for the first fault of a decoder that fits; None for another model or without such a fault.

    Args:
        decoder: The model.
        cases: The cases that the fault must explain.
        fits: Returns whether the decoder with a fault returns the outputs of the artifact.
    """
    if not hasattr(decoder, "make_columns"):
        return None
    faults = {**faulty_columns(), **_faulty_rotations(decoder), **_shorter_ranges(cases)}
    for (cause, description), columns in faults.items():
        with replaced_attributes(decoder, {"make_columns": columns.from_mask}):
            try:
                if fits():
                    return Finding(cause, description, output="logits")
            except RuntimeFailedError:  # positions of this fault may have no row in a table
                continue
    return None


def faulty_columns() -> Mapping[tuple[Cause, str], Any]:
    """Returns a class of columns for each fault, by the cause and the sentence about the fault."""
    from keras import ops

    from keras_pe.export.model.cache_columns import Columns  # imports Keras

    class _FromZero(Columns):
        @property
        def own_positions(self) -> Any:
            own = super().own_positions
            return own - own[:, :1]

    class _Later(Columns):
        @property
        def own_positions(self) -> Any:
            return super().own_positions + 1

    class _Earlier(Columns):
        @property
        def own_positions(self) -> Any:
            return ops.maximum(super().own_positions - 1, 0)

    class _LaterAfterFirst(Columns):
        @property
        def own_positions(self) -> Any:
            return super().own_positions + ops.cast(self.start > 0, "int32")

    class _EarlierAfterFirst(Columns):
        @property
        def own_positions(self) -> Any:
            return super().own_positions - ops.cast(self.start > 0, "int32")

    class _LaterAtFirst(Columns):
        @property
        def own_positions(self) -> Any:
            return super().own_positions + ops.cast(ops.equal(self.start, 0), "int32")

    class _WithPadding(Columns):
        @property
        def own_positions(self) -> Any:
            places = ops.cumsum(ops.ones_like(self.positions), axis=1) - 1
            return self.select_own(places)

    class _Unmasked(Columns):
        def visible(self, window: int | None = None) -> Any:
            return _by_column(self, window)

    class _UnmaskedPadding(Columns):
        def visible(self, window: int | None = None) -> Any:
            return Columns.visible(replace(self, is_token=ops.ones_like(self.is_token)), window)

    class _Ignored(_WithPadding, _Unmasked):
        pass

    class _WithLater(Columns):
        def visible(self, window: int | None = None) -> Any:
            places = ops.arange(ops.shape(self.positions)[1], dtype="int32")
            own = ops.logical_and(self.is_token, places[None] >= self.start)
            return ops.logical_or(super().visible(window), own[:, None, :])

    class _WithoutNewest(Columns):
        def visible(self, window: int | None = None) -> Any:
            columns = ops.arange(ops.shape(self.positions)[1], dtype="int32")
            return ops.logical_and(super().visible(window), columns[None, None, :] != self.start - 1)

    class _WithoutOldest(Columns):
        def visible(self, window: int | None = None) -> Any:
            columns = ops.arange(ops.shape(self.positions)[1], dtype="int32")
            is_kept = ops.logical_or(columns > 0, ops.equal(self.start, 0))
            return ops.logical_and(super().visible(window), is_kept[None, None, :])

    class _Wider(Columns):
        def visible(self, window: int | None = None) -> Any:
            return super().visible(window and window + 1)

    class _Narrower(Columns):
        def visible(self, window: int | None = None) -> Any:
            return super().visible(window and window - 1)

    class _Endless(Columns):
        def visible(self, window: int | None = None) -> Any:
            return super().visible(None)

    window = Cause.attribute("window")
    return {
        (Cause.START_INDEX_OFF, "Each call begins at position 0, although the cache has rows."): _FromZero,
        (Cause.START_INDEX_OFF, "Each token has the position of the next one."): _Later,
        (Cause.START_INDEX_OFF, "Each token has the position of the one before."): _Earlier,
        (Cause.START_INDEX_OFF, "After the first call, each token has the position of the next one."): _LaterAfterFirst,
        (
            Cause.START_INDEX_OFF,
            "After the first call, each token has the position before its own.",
        ): _EarlierAfterFirst,
        (Cause.START_INDEX_OFF, "The first call begins at position 1."): _LaterAtFirst,
        (Cause.START_INDEX_OFF, "Padding is counted as positions."): _WithPadding,
        (Cause.DROPPED_MASK, "Tokens attend to padding in the cache."): _Unmasked,
        (Cause.DROPPED_MASK, "Tokens attend to padding up to their own positions."): _UnmaskedPadding,
        (Cause.DROPPED_MASK, "Nothing depends on `attention_mask`: padding counts as tokens."): _Ignored,
        (Cause.DROPPED_CAUSAL_MASK, "Tokens attend to later tokens of their call."): _WithLater,
        (Cause.DROPPED_INPUT, "Tokens do not attend to the newest row of the cache."): _WithoutNewest,
        (Cause.DROPPED_INPUT, "Tokens do not attend to the oldest row of the cache."): _WithoutOldest,
        (window, "A token attends to one position more than the window has."): _Wider,
        (window, "A token attends to one position less than the window has."): _Narrower,
        (window, "A token attends to all positions, without the window."): _Endless,
    }


def _faulty_rotations(decoder: Any) -> Mapping[tuple[Cause, str], Any]:
    """Returns the faults of a decoder that rotates the keys in its cache again; empty without a rotary layer."""
    from keras import ops

    from keras_pe.export.model.cache_columns import Columns  # imports Keras
    from keras_pe.export.model.cached_attention import rotary_layers, rotate_keys
    from keras_pe.export.model.watch.keras_internals import all_layers

    layers = rotary_layers(all_layers(decoder))
    if not layers:
        return {}

    class _Rotated(Columns):
        is_stored = False
        plain: Sequence[Any] = ()

        @classmethod
        def from_mask(cls, attention_mask: Any, count: Any, past: Sequence[Any], **options: Any) -> Self:
            found = super().from_mask(attention_mask, count, past, **options)
            start, turned = found.start, [*past]
            for place in range(0, len(past), 2):  # values follow keys
                rows, layer = past[place], layers[place // 2 % len(layers)]
                again = rotate_keys(layer, rows[:, :, :start], found.positions[:, :start])
                turned[place] = ops.concatenate([again, rows[:, :, start:]], axis=2)
            found.past, found.plain = turned, past
            return found

        def _keep(self, rows: Any) -> Any:
            kept, start = super()._keep(rows), self.start
            if not self.is_stored:
                earlier = self.plain[len(self.present) - 1][:, :, :start]
                self.present[-1] = ops.concatenate([earlier, self.present[-1][:, :, start:]], axis=2)
            return kept

    class _StoredRotated(_Rotated):
        is_stored = True

    return {
        (Cause.START_INDEX_OFF, "Each call rotates the keys in the cache again."): _Rotated,
        (Cause.START_INDEX_OFF, "Each call rotates the keys in the cache again, and returns them."): _StoredRotated,
    }


def _shorter_ranges(cases: Sequence[FailedCase]) -> Mapping[tuple[Cause, str], Any]:
    """Returns the faults of a table or a window that ends before the first wrong token; empty if the first is wrong.

    A token attends to earlier tokens alone, so all tokens up to the last row of the table or the window are right. The
    cases may lack the next token, or its difference may be small.
    """
    from keras import ops

    from keras_pe.export.model.cache_columns import Columns  # imports Keras

    def clamp(last: int) -> Any:
        class _Clamped(Columns):
            @property
            def own_positions(self) -> Any:
                return ops.minimum(super().own_positions, last)

        return _Clamped

    def limit(size: int) -> Any:
        class _Short(Columns):
            def visible(self, window: int | None = None) -> Any:
                return super().visible(min(window or size, size))

        return _Short

    first = min((position for case in cases for position in _wrong_positions(case)), default=0)
    sizes = range(first, max(first - _UNSEEN, 0), -1)
    clamped = {(Cause.CLAMPED_TABLE, f"Positions above {n - 1} are encoded as {n - 1}."): clamp(n - 1) for n in sizes}
    window = Cause.attribute("window")
    return clamped | {(window, f"A token attends to {n} positions at most, its own included."): limit(n) for n in sizes}


def _wrong_positions(case: FailedCase) -> Array:
    """Returns the positions of the tokens whose logits differ; empty if the positions do not follow from a mask."""
    (tolerance,) = [each.tolerance for each in case.compared if each.output == "logits"] or [0.0]
    expected, actual = (side.get("logits", np.empty(0)) for side in (case.expected, case.actual))
    if expected.shape != actual.shape or "attention_mask" not in case.inputs:
        return np.empty(0, int)
    places = np.maximum(np.cumsum(case.inputs["attention_mask"], axis=1) - 1, 0)[:, -expected.shape[1] :]
    places = case.inputs.get("position_ids", places)
    found: Array = places[(np.abs(expected - actual) > tolerance).any(-1)]
    return found


def _by_column(columns: Any, window: int | None) -> Any:
    """Returns whether a token attends to a column, by their order alone."""
    from keras import ops

    places = ops.arange(ops.shape(columns.positions)[1], dtype="int32")
    own, every = columns.select_own(places[None])[:, :, None], places[None, None, :]
    seen = ops.broadcast_to(every <= own, (ops.shape(columns.positions)[0], columns.count, ops.shape(places)[0]))
    return seen if window is None else ops.logical_and(seen, own - every < window)
