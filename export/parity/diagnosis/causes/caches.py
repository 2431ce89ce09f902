"""Detects a decoder whose positions, rotations or mask do not fit the rows of its cache."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np

from keras_pe.export.comparison.references.reference import Reference
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.temporary_patches import replaced_attributes
from keras_pe.export.parity.diagnosis.causes.states import FailedCase, FailedStream, explains, failed_cases
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.results import Array, Cause, Finding

_PROBED = 256  # tokens whose keys show a rotation
_EVEN = 1e-2  # largest distance of a matrix from a rotation
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
    # The rotations take calls of the decoder, so they are read only if no other columns fit.
    parts = (_faulty_columns, partial(_faulty_rotations, decoder), partial(_shorter_ranges, cases))
    for (cause, description), columns in itertools.chain.from_iterable(part().items() for part in parts):
        with replaced_attributes(decoder, {"make_columns": columns.from_mask}):
            try:
                if fits():
                    return Finding(cause, description, output="logits")
            except RuntimeFailedError:  # positions of this fault may have no row in a table
                continue
    return None


def _faulty_columns() -> Mapping[tuple[Cause, str], Any]:
    """Returns a class of columns for each fault, by the cause and the sentence about the fault."""
    from keras import ops

    from keras_pe.export.model.cache_columns import Columns  # imports Keras

    def hiding(hide: Callable[[Any, Any], Any]) -> Any:
        """Returns a fault that hides columns, from their numbers and the number of earlier columns."""

        def see(columns: Any, window: int | None) -> Any:
            is_hidden = hide(_numbers(columns), columns.start)
            return ops.logical_and(Columns.visible(columns, window), ops.logical_not(is_hidden)[None, None, :])

        return _seeing(see)

    def see_padding(columns: Any, window: int | None) -> Any:
        return Columns.visible(replace(columns, is_token=ops.ones_like(columns.is_token)), window)

    def see_later(columns: Any, window: int | None) -> Any:
        own = ops.logical_and(columns.is_token, _numbers(columns)[None] >= columns.start)
        return ops.logical_or(Columns.visible(columns, window), own[:, None, :])

    class _WithPadding(Columns):
        sound: Any = None

        @classmethod
        def from_mask(cls, *args: Any, **options: Any) -> Self:
            found = super().from_mask(*args, **options)
            found.sound, places = Columns.from_mask(*args, **options), _numbers(found)
            found.positions = ops.broadcast_to(places[None], ops.shape(found.positions))
            return found

        def visible(self, window: int | None = None) -> Any:
            return self.sound.visible(window)

    window, start = Cause.attribute("window"), Cause.START_INDEX_OFF
    after = "After the first call, each token has the position"
    return {
        (start, "Each call begins at position 0, although the cache has rows."): _at(lambda own, _: own - own[:, :1]),
        (start, "Each token has the position of the next one."): _at(lambda own, _: own + 1),
        (start, "Each token has the position of the one before."): _at(lambda own, _: ops.maximum(own - 1, 0)),
        (start, f"{after} of the next one."): _at(lambda own, past: own + ops.cast(past > 0, "int32")),
        (start, f"{after} before its own."): _at(lambda own, past: own - ops.cast(past > 0, "int32")),
        (start, "The first call begins at position 1."): _at(
            lambda own, past: own + ops.cast(ops.equal(past, 0), "int32")
        ),
        (start, "Positions count half of the rows in the cache."): _at(lambda own, past: own - past // 2),
        (start, "Padding is counted as positions."): _WithPadding,
        (Cause.DROPPED_MASK, "Tokens attend to padding in the cache."): _seeing(_by_column),
        (Cause.DROPPED_MASK, "Tokens attend to padding up to their own positions."): _seeing(see_padding),
        (Cause.DROPPED_MASK, "Nothing depends on `attention_mask`: padding counts as tokens."): _seeing(
            _by_column, _WithPadding
        ),
        (Cause.DROPPED_CAUSAL_MASK, "Tokens attend to later tokens of their call."): _seeing(see_later),
        (Cause.DROPPED_INPUT, "Tokens do not attend to the newest row of the cache."): hiding(
            lambda columns, past: columns == past - 1
        ),
        (Cause.DROPPED_INPUT, "Tokens do not attend to the oldest row of the cache."): hiding(
            lambda columns, past: ops.logical_and(columns == 0, past > 0)
        ),
        (window, "A token attends to one position more than the window has."): _within(lambda size: size and size + 1),
        (window, "A token attends to one position less than the window has."): _within(lambda size: size and size - 1),
        (window, "A token attends to all positions, without the window."): _within(lambda _: None),
    }


def _faulty_rotations(decoder: Any) -> Mapping[tuple[Cause, str], Any]:
    """Returns the faults of a decoder that rotates the keys in its cache again; empty if it rotates no keys."""
    from keras_pe.export.model.cache_columns import Columns  # imports Keras

    rotations = [(*np.linalg.eig(each),) for each in _rotations(decoder)]

    def rotating(*, by_column: bool, is_stored: bool) -> Any:
        class _Rotated(Columns):
            plain: Sequence[Any] = ()

            @classmethod
            def from_mask(cls, attention_mask: Any, count: Any, past: Sequence[Any], **options: Any) -> Self:
                found = super().from_mask(attention_mask, count, past, **options)
                places = np.asarray(found.positions)[:, : int(found.start)]
                places = np.arange(places.shape[1]) + 0 * places if by_column else places
                found.plain, found.past = past, [*past]
                for layer, (values, vectors) in enumerate(rotations):
                    rows = np.array(past[2 * layer])
                    own = rows[:, :, : places.shape[1]]
                    inside = own @ np.linalg.inv(vectors).T * values ** places[:, None, :, None]
                    own[:] = (inside @ vectors.T).real
                    found.past[2 * layer] = rows
                return found

            def _keep(self, rows: Any) -> Any:
                from keras import ops

                kept, start = super()._keep(rows), self.start
                if not is_stored:
                    earlier = self.plain[len(self.present) - 1][:, :, :start]
                    self.present[-1] = ops.concatenate([earlier, self.present[-1][:, :, start:]], axis=2)
                return kept

        return _Rotated

    again = "Each call rotates the keys in the cache again"
    endings = {False: "", True: ", at the numbers of their columns"}
    return {
        (Cause.START_INDEX_OFF, f"{again}{ending}{', and returns them' if is_stored else ''}."): rotating(
            by_column=by_column, is_stored=is_stored
        )
        for by_column, ending in endings.items()
        for is_stored in (False, True)
        if rotations
    }


def _rotations(decoder: Any) -> list[Array]:
    """Returns the matrix of each layer that moves a key by one position; empty unless positions only rotate keys.

    One token behind padding attends to itself, so that its position changes its keys only by their rotation.
    """
    from keras import ops

    from keras_pe.export.model.cache_columns import Columns  # imports Keras
    from keras_pe.export.model.language_model import call_with_cache

    if decoder.context_names:
        return []
    tokens = np.arange(min(decoder.vocabulary_size, _PROBED), dtype="int32")[:, None].repeat(2, axis=1)
    keys = []
    for place in (0, 1):
        past = [np.zeros((len(tokens), heads, 0, size), decoder.cache_dtype) for heads, size in decoder.cache_shapes]
        positions = ops.full(tokens.shape, place, "int32")
        columns = Columns(positions, tokens * 0 + [[0, 1]] > 0, 2, past, given_positions=positions)
        try:
            call_with_cache(decoder.model, tokens, columns)
        except Exception:  # A step of the user's own may refuse these tokens with any error.
            return []
        found = (np.asarray(each, np.float64)[:, :, 1] for each in columns.present[::2])
        keys.append([each.reshape(-1, each.shape[-1]) for each in found])
    matrices = [np.linalg.lstsq(at_0, at_1, rcond=None)[0].T for at_0, at_1 in zip(*keys, strict=True)]
    one = [np.eye(len(each)) for each in matrices]
    is_rotation = all(distance(each @ each.T, unit) < _EVEN for each, unit in zip(matrices, one, strict=True))
    is_turned = any(distance(each, unit) > _EVEN for each, unit in zip(matrices, one, strict=True))
    return matrices if is_rotation and is_turned else []


def _shorter_ranges(cases: Sequence[FailedCase]) -> Mapping[tuple[Cause, str], Any]:
    """Returns the faults of a table or a window that ends before the first wrong token; empty if the first is wrong.

    A token attends to earlier tokens alone, so all tokens up to the last row of the table or the window are right. The
    cases may lack the next token, or its difference may be small.
    """
    from keras import ops

    first = min((position for case in cases for position in _wrong_positions(case)), default=0)
    sizes = range(first, max(first - _UNSEEN, 0), -1)
    found = dict[tuple[Cause, str], Any]()
    for n in sizes:
        clamped = (Cause.CLAMPED_TABLE, f"Positions above {n - 1} are encoded as {n - 1}.")
        found[clamped] = _at(lambda own, _, last=n - 1: ops.minimum(own, last))
    for n in sizes:
        limited = (Cause.attribute("window"), f"A token attends to {n} positions at most, its own included.")
        found[limited] = _within(lambda size, n=n: min(size or n, n))
    return found


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


def _at(move: Callable[..., Any]) -> Any:
    """Returns columns that encode tokens at other positions, from their own and the number of earlier columns."""
    from keras_pe.export.model.cache_columns import Columns  # imports Keras

    class _Moved(Columns):
        @property
        def own_positions(self) -> Any:
            return move(super().own_positions, self.start)

    return _Moved


def _within(change: Callable[..., int | None]) -> Any:
    """Returns columns that have another window than the model, from its own; None for no window."""
    from keras_pe.export.model.cache_columns import Columns  # imports Keras

    return _seeing(lambda columns, window: Columns.visible(columns, change(window)))


def _seeing(see: Callable[[Any, int | None], Any], kind: Any = None) -> Any:
    """Returns columns of a class in which tokens attend to other columns, from these and the window of a layer."""
    from keras_pe.export.model.cache_columns import Columns  # imports Keras

    class _Seeing(kind or Columns):  # type: ignore[misc]  # the class is a value
        def visible(self, window: int | None = None) -> Any:
            return see(self, window)

    return _Seeing


def _numbers(columns: Any) -> Any:
    """Returns the number of each column, `[total]`."""
    from keras import ops

    return ops.arange(ops.shape(columns.positions)[1], dtype="int32")


def _by_column(columns: Any, window: int | None) -> Any:
    """Returns whether a token attends to a column, by their order alone."""
    from keras import ops

    places = _numbers(columns)
    own, every = columns.select_own(places[None])[:, :, None], places[None, None, :]
    seen = ops.broadcast_to(every <= own, (ops.shape(columns.positions)[0], columns.count, ops.shape(places)[0]))
    return seen if window is None else ops.logical_and(seen, own - every < window)
