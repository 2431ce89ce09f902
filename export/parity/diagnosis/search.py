"""The smallest edit of a recorded call that gives the artifact's numbers, searched for within the time that is left."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from keras_pe.export.model.watch.state import state_left_alone
from keras_pe.export.parity.diagnosis.budget import OutOfTimeError
from keras_pe.export.parity.diagnosis.edits import Edit, Edits, NumericEdit
from keras_pe.export.parity.diagnosis.fitting import fitted
from keras_pe.export.parity.diagnosis.layer_call import first_steps, shown
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.parity.diagnosis.probe import Probe, distance
from keras_pe.export.parity.diagnosis.sites.attributes import other_attributes
from keras_pe.export.parity.diagnosis.sites.directions import other_directions
from keras_pe.export.parity.diagnosis.sites.inputs import altered_inputs, other_inputs
from keras_pe.export.parity.diagnosis.sites.masks import other_masks
from keras_pe.export.parity.diagnosis.sites.normalization import other_normalizations
from keras_pe.export.parity.diagnosis.sites.operations import other_operations
from keras_pe.export.parity.diagnosis.sites.padding import other_paddings
from keras_pe.export.parity.diagnosis.sites.resizing import other_places
from keras_pe.export.parity.diagnosis.sites.weights import other_weights
from keras_pe.export.results import Array, Finding

EXPLAINS = 0.02
"""An edit explains a difference if it leaves at most this much of it."""
_MOVED = 1e-3  # of a number: below that it has stayed what it was

Site = Callable[[LayerFault], Edits]

OF_THE_LAYER: tuple[Site, ...] = (
    other_operations,
    other_masks,
    other_directions,
    other_attributes,
    other_normalizations,
    other_weights,
    other_paddings,
    other_places,
    other_inputs,
)
"""What may have become of the layer itself, the likeliest and cheapest first."""

OF_ITS_INPUTS: tuple[Site, ...] = (altered_inputs,)
_STEP_BY_STEP = {other_attributes, other_weights}  # the sites of which a recurrence's first steps tell


@dataclass(frozen=True)
class Explanation:
    """An edit that gives the artifact's numbers, and whether to within their noise or only nearly so."""

    finding: Finding
    is_exact: bool


def explain(probe: Probe, fault: LayerFault, sites: Sequence[Site] = OF_THE_LAYER) -> Explanation | None:
    """Returns the edit of a call that gives the artifact's numbers: the first that is exact, or else the nearest.

    Args:
        probe: The time that is left, and what keeps what could not be tried.
        fault: The call and its output.
        sites: What is tried, in this order.
    """
    seen = fault.through or fault
    actual = seen.held if seen.actual is None else seen.actual
    if actual is None:
        return None
    error = distance(actual, seen.expected)
    if not error > 0 or (seen.actual is not None and error == np.inf):
        return None
    search = _Search(probe, fault, actual, error)
    for number, site in enumerate(sites):
        try:
            if search.try_all(site):
                break
        except OutOfTimeError:
            names = (each.__name__.replace("_", " ") for each in sites[number:])
            probe.not_reached.append(f"{', '.join(names)} of {fault.layer!r}")
            break
    return search.result()


class _Search:
    """The edits of one call that have been tried, and the best of them."""

    def __init__(self, probe: Probe, fault: LayerFault, actual: Array, error: float) -> None:
        self.probe, self.fault, self.actual, self.error = probe, fault, actual, error
        self.seen = fault.through or fault
        self.allowed = self.seen.tolerance if error == np.inf else max(EXPLAINS * error, self.seen.tolerance)
        self.best: tuple[float, Edit] | None = None
        self.has_run = False
        self.refused: Exception | None = None

    def try_all(self, site: Site) -> bool:
        """Tries the edits of a site, and returns whether one is exact."""
        self.probe.budget.tell(f"{site.__name__.replace('_', ' ')} of {self.fault.layer!r}")
        try:
            for edit in self._edits(site):
                if isinstance(edit, NumericEdit):
                    is_exact = any(self._try(each) for each in self._fit(edit))
                else:
                    is_exact = self._try(edit)
                if is_exact:
                    return True
        except OutOfTimeError:
            raise
        except Exception as error:  # whatever a layer raises where its configuration is asked for
            self.refused = self.refused or error
        return False

    def result(self) -> Explanation | None:
        if self.best is None:
            if self.refused is not None and not self.has_run:
                self.probe.note(f"changes of the layer {self.fault.layer!r}", self.refused)
            return None
        left, edit = self.best
        text = str(edit) + (f" That shows in the output of {self.seen.layer!r}." if self.fault.through else "")
        shapes = f"another shape ({self.actual.shape}, not {self.fault.expected.shape})"
        was = f"{self.error:.1e}" if self.error < np.inf else shapes
        finding = Finding(edit.cause, f"{text} The difference falls from {was} to {left:.1e}.", self.fault.layer)
        return Explanation(finding, left <= self.seen.tolerance)

    def _edits(self, site: Site) -> Iterator[Edit | NumericEdit]:
        """Yields the edits of a site; of a recurrence those that begin as the artifact does."""
        begun = first_steps(self.fault) if site in _STEP_BY_STEP else None
        if begun is None or begun.actual is None:
            yield from site(self.fault)
            return
        error = distance(begun.actual, begun.expected)
        if error <= begun.tolerance:  # what is wrong begins later
            yield from site(self.fault)
            return
        short = _Search(self.probe, begun, begun.actual, error)
        for first, edit in zip(site(begun), site(self.fault), strict=True):
            if isinstance(first, Edit) and short.left(first) <= short.allowed:
                yield edit
            elif isinstance(first, NumericEdit) and isinstance(edit, NumericEdit):
                yield from (edit.edit(numbers) for numbers in short.found(first))

    def _try(self, edit: Edit) -> bool:
        left = self.left(edit)
        if left <= self.allowed and (self.best is None or left < self.best[0]):
            self.best = (left, edit)
        return left <= self.seen.tolerance

    def left(self, edit: Edit) -> float:
        """Returns what an edit leaves of the difference; infinity where it is none that the layer takes."""
        self.probe.budget.check()
        result = self._computed(edit.compute)
        if result is None:
            return np.inf
        self.has_run = self.has_run or not edit.is_output
        if distance(result, self.seen.expected) <= self.seen.tolerance:
            return np.inf  # it changes nothing
        is_whole = self.seen.actual is not None or result.ndim < 3
        forms = [result] if is_whole else [result, np.moveaxis(result, -1, 1)]
        return min(distance(self.actual, each) for each in forms)

    def _computed(self, compute: Callable[[], Array | None]) -> Array | None:
        try:
            with state_left_alone(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an attribute that is only tried
                return shown(self.fault, compute())
        except Exception as error:  # whatever a layer raises: this change is none that it takes
            self.refused = self.refused or error
            return None

    def _fit(self, edit: NumericEdit) -> Iterator[Edit]:
        return (edit.edit(numbers) for numbers in self.found(edit))

    def found(self, edit: NumericEdit) -> Iterator[dict[str, float]]:
        """Yields the numbers that fit, those that have moved, first as one would write them."""

        def compute(*numbers: float) -> Array:
            self.probe.budget.check()
            result = shown(self.fault, edit.compute(*numbers))
            assert result is not None
            return result

        try:
            with state_left_alone(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if self.seen.actual is None:
                    return
                values = fitted(compute, tuple(edit.start.values()), self.seen.expected, self.seen.actual)
        except OutOfTimeError:
            raise
        except Exception:  # whatever a layer raises: these are no numbers that it takes
            return
        for shorten in (lambda value: float(f"{value:.2g}"), float):
            moved = {
                name: shorten(value)
                for (name, was), value in zip(edit.start.items(), values or (), strict=False)
                if abs(value - was) > _MOVED * max(abs(value), abs(was))
            }
            if moved:
                yield moved
