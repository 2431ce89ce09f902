"""Detects a decoder whose positions or mask do not fit the rows of its cache."""

from collections.abc import Iterator, Mapping
from typing import Any

from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.temporary_patches import replaced_attributes
from keras_pe.export.parity.diagnosis.causes.states import explains, failed_cases
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.results import Cause, Finding


def cache_at_fault(probe: Probe) -> Iterator[Finding]:
    """Detects a fault of the positions or the mask: the model with that fault returns the outputs of the artifact."""
    decoder = probe.reference.model
    if not hasattr(decoder, "make_columns"):
        return
    cases = failed_cases(probe)
    for (cause, said), columns in faulty_columns().items():
        probe.budget.check()
        with replaced_attributes(decoder, {"make_columns": columns.from_mask}):
            try:
                is_found = bool(cases) and all(explains(c, probe.reference.expect_eager(c.inputs)) for c in cases)
            except RuntimeFailedError:  # positions of this fault may have no row in a table
                continue
        if is_found:
            yield Finding(cause, said, output="logits")
            return


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

    class _WithPadding(Columns):
        @property
        def own_positions(self) -> Any:
            places = ops.cumsum(ops.ones_like(self.positions), axis=1) - 1
            return self.select_own(places)

    class _Unmasked(Columns):
        def visible(self, window: int | None = None) -> Any:
            return _by_column(self, window)

    class _Ignored(_WithPadding, _Unmasked):
        pass

    class _WithoutNewest(Columns):
        def visible(self, window: int | None = None) -> Any:
            columns = ops.arange(ops.shape(self.positions)[1], dtype="int32")
            return ops.logical_and(super().visible(window), columns[None, None, :] != self.start - 1)

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
        (Cause.START_INDEX_OFF, "Padding is counted as positions."): _WithPadding,
        (Cause.DROPPED_MASK, "Tokens attend to padding in the cache."): _Unmasked,
        (Cause.DROPPED_MASK, "Nothing depends on `attention_mask`: padding counts as tokens."): _Ignored,
        (Cause.DROPPED_INPUT, "Tokens do not attend to the newest row of the cache."): _WithoutNewest,
        (window, "A token attends to one position more than the window has."): _Wider,
        (window, "A token attends to one position less than the window has."): _Narrower,
        (window, "A token attends to all positions, without the window."): _Endless,
    }


def _by_column(columns: Any, window: int | None) -> Any:
    """Returns whether a token attends to a column, by their order alone."""
    from keras import ops

    places = ops.arange(ops.shape(columns.positions)[1], dtype="int32")
    own, every = columns.select_own(places[None])[:, :, None], places[None, None, :]
    seen = ops.broadcast_to(every <= own, (ops.shape(columns.positions)[0], columns.count, ops.shape(places)[0]))
    return seen if window is None else ops.logical_and(seen, own - every < window)
