"""Where: the layers at fault, found by putting Keras' own outputs in the place of the artifact's, one after another."""

from dataclasses import dataclass, replace

from keras_pe.export.comparison.law import flat_tolerance, is_float
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.parity.diagnosis.alignment import Match, Tensors
from keras_pe.export.parity.diagnosis.folding import is_foldable
from keras_pe.export.parity.diagnosis.held import HeldOutputs
from keras_pe.export.parity.diagnosis.probe import FAILURES, LayerFault
from keras_pe.export.parity.diagnosis.taps import Tap, record_taps
from keras_pe.export.results import Array, LayerResult, Proof
from keras_pe.export.runtimes.runner import Runner

_MOST_FAULTS = 32
_SLACK = 4.0  # for values of which no noise is known
_MOST_BEFORE = 8


@dataclass(frozen=True)
class Trace:
    """What following the model through the artifact has found.

    Attributes:
        layers: Layer by layer; empty where the artifact cannot be read inside, or there are no layers.
        faults: The layers at fault, in the order of computation.
        proof: What the artifact returns with their outputs replaced; None where nothing was.
        is_sound_inside: Whether the artifact, read inside and without optimizations, returns what Keras returns.
        refusal: Why the artifact could not be read inside; None where it was, or where its runtime never is.
    """

    layers: tuple[LayerResult, ...] = ()
    faults: tuple[LayerFault, ...] = ()
    proof: Proof | None = None
    is_sound_inside: bool = False
    refusal: Exception | None = None


def trace_faults(runner: Runner, reference: KerasReference, expectation: Expectation) -> Trace:
    """Returns where the artifact leaves the model's way in one case.

    Going forward, the first layer whose output the artifact does not hold is at fault (the deepest one, because inner
    layers return before outer ones). Keras' own output is put in its place in the artifact, and everything after it is
    looked at again: it must agree, or is a fault of its own.
    """
    if "intermediates" not in runner.capabilities:
        return Trace()
    try:
        taps = record_taps(reference, expectation)
        return _Walk(runner, expectation, taps).trace() if taps else Trace()
    except FAILURES as error:
        return Trace(refusal=error)


class _Walk:
    """The way through the model in one case, and the faults that were met on it."""

    def __init__(self, runner: Runner, expectation: Expectation, taps: list[Tap]) -> None:
        self._held = HeldOutputs(runner, expectation, taps)
        self._inputs = expectation.case.inputs
        self._taps = taps
        self._faults: list[tuple[Tap, LayerFault]] = []
        self._passed_over = set[int]()

    def trace(self) -> Trace:
        plain, before, differing = self._held.matches, self._held.tensors, self._held.differing
        is_sound = self._held.outputs_pass()[2]
        while not self._held.outputs_pass()[2] and len(self._faults) < _MOST_FAULTS:
            tap = self._first_that_differs()
            if tap is None:
                break
            if self._is_merged(tap):
                self._passed_over.add(tap.number)
            elif not self._replace(self._enclosing(tap)):
                break
        blamed = {tap.number: tap for tap, _ in self._faults}
        taps = [blamed.get(tap.number, tap) for tap in self._taps]
        differing = differing - self._passed_over
        results = tuple(self._result(tap, plain[tap.number], before, tap.number in differing) for tap in taps)
        return Trace(results, tuple(fault for _, fault in self._faults), self._proof(), is_sound)

    def _first_that_differs(self) -> Tap | None:
        done = {tap.number for tap, _ in self._faults} | self._passed_over
        return next((tap for tap in self._taps if tap.number in self._held.differing and tap.number not in done), None)

    def _is_merged(self, tap: Tap) -> bool:
        """Whether a layer is only a part of one that differs, of which no tensor tells: both may be one operator."""
        differing = [self._taps[number].call.path for number in self._held.differing]
        whole = next((path for path in differing if tap.call.path.startswith(f"{path}/")), None)
        if whole is None or self._held.named(tap):
            return False
        place = self._held.place(tap)
        parts = [each.number for each in self._taps if each.call.path.startswith(f"{whole}/")]
        return place is None or not place.mends_more_than(parts)

    def _enclosing(self, tap: Tap) -> Tap:
        """Returns the layer around another one that was given something wrong: what is between its parts is its own."""
        path = tap.call.path.rpartition("/")[0]
        while path and not all(self._is_given(array) for array in tap.loose_inputs):
            own = next((pair for pair in tap.containers if pair[0].path.partition("#")[0] == path), None)
            outer = (each for each in self._taps if each.call.path.partition("#")[0] == path)
            if own is not None:
                loose = () if own[0].depth == 1 else tap.loose_inputs
                tap = replace(tap, call=own[0], index=own[1], loose_inputs=loose)
            else:
                tap = next((each for each in outer if each.number > tap.number), tap)
            path = path.rpartition("/")[0]
        return tap

    def _is_given(self, array: Array) -> bool:
        return self._held.tensors.holds(array, _SLACK * flat_tolerance(array))

    def _replace(self, tap: Tap) -> bool:
        """Puts Keras' output in the place of the tensor that should hold it; False where no tensor can be found."""
        found = self._held.place(tap)
        if found is None or not found.mends_more_than([tap.number]):
            after = self._folded_after(tap)
            place = None if after is None else self._held.place(after)
            if after is not None and place is not None and place.mends_more_than([after.number]):
                fault = LayerFault(tap.call, tap.index, place.match.tensor, None, tap.tolerance, after.call)
                return self._put(tap, fault, after.output, place.match)
        tensors = self._held.tensors
        if found is None and not self._held.named(tap) and self._replace_next(tap):
            return True
        if found is None:
            held = next((tensors.arrays[name] for name in self._held.named(tap)), None)
            self._faults.append((tap, LayerFault(tap.call, tap.index, None, None, tap.tolerance, held=held)))
            return False
        actual = tensors.in_shape(found.match, tap.output.shape)
        fault = LayerFault(tap.call, tap.index, found.match.tensor, actual, tap.tolerance)
        fault = replace(fault, loose=tap.loose_inputs, before=self._before(tap), unsure=self._unsure(tap))
        fault = replace(fault, reordered=self._reordered(tap))
        return self._put(tap, fault, tap.output, found.match)

    def _replace_next(self, tap: Tap) -> bool:
        """Puts Keras' output in the place of what the next layer returns, where no tensor has a layer's own size."""
        after = self._held.consumers(tap)
        place = self._held.place(after[0]) if len(after) == 1 else None
        if place is None or not place.mends_more_than([after[0].number]):
            return False
        seen = after[0]
        actual = self._held.tensors.in_shape(place.match, seen.output.shape)
        through = LayerFault(seen.call, seen.index, place.match.tensor, actual, seen.tolerance)
        fault = LayerFault(tap.call, tap.index, None, None, tap.tolerance, through=through)
        return self._put(tap, fault, seen.output, place.match)

    def _put(self, tap: Tap, fault: LayerFault, output: Array, match: Match) -> bool:
        self._faults.append((tap, fault))
        self._held.replace(match, output)
        return True

    def _unsure(self, tap: Tap) -> tuple[LayerFault, ...]:
        """Returns the layers before one that are known by their values alone: these may stand beside the way."""
        sources = [self._taps[number] for number in tap.sources]
        unsure = [each for each in sources if not self._held.named(each)]
        return tuple(LayerFault(each.call, each.index, None, None, each.tolerance) for each in unsure)

    def _before(self, tap: Tap) -> tuple[tuple[str, Array], ...]:
        """Returns what a layer may have been given: what was there before of a shape that it was given, or of one that
        has steps as well; the nearest first."""
        shapes = {array.shape for array in tap.call.inputs if is_float(array.dtype)}
        outputs = [(each.call.path, each.output) for each in self._taps[: tap.number]]
        numbers = [pair for pair in self._inputs.items() if pair[1].dtype.kind in "iuf"]
        known = [*reversed(outputs), *numbers]
        fitting = (
            pair for pair in known if pair[1].shape in shapes or (*pair[1].shape[:1], *pair[1].shape[2:]) in shapes
        )
        return tuple(fitting)[:_MOST_BEFORE]

    def _reordered(self, tap: Tap) -> tuple[tuple[int, Array], ...]:
        """Returns what the artifact holds of a layer's inputs in another order."""
        floats = [(n, array) for n, array in enumerate(tap.call.inputs) if is_float(array.dtype) and array.size > 1]
        held = self._held.tensors
        found = [(n, other) for n, x in floats for other in held.reordered(x, _SLACK * flat_tolerance(x))]
        return tuple(found[:_MOST_BEFORE])

    def _folded_after(self, tap: Tap) -> Tap | None:
        """Returns the normalization after a layer that an exporter may have folded into its weights."""
        after = self._held.consumers(tap)
        is_apart = len(after) != 1 or bool(self._held.named(tap)) or self._held.matches[after[0].number] is not None
        return None if is_apart or not is_foldable(tap.call.layer, after[0].call.layer) else after[0]

    def _proof(self) -> Proof | None:
        if not self._held.replaced:
            return None
        layers = tuple(dict.fromkeys(tap.call.path for tap, fault in self._faults if fault.tensor is not None))
        return Proof(layers, *self._held.outputs_pass())

    def _result(self, tap: Tap, match: Match | None, tensors: Tensors, differs: bool) -> LayerResult:
        """Returns what a layer's output was in the artifact as it is: `match` where it held it."""
        path = tap.call.path
        if match is not None:
            return LayerResult(path, match.tensor, match.difference, tap.tolerance, differs=False)
        fault = next((fault for each, fault in self._faults if each.number == tap.number), None)
        mended = self._held.matches[tap.number]
        if fault is None and not differs:
            return LayerResult(path, None, float("inf"), tap.tolerance, differs=False)
        known = fault.tensor if fault is not None else None if mended is None else mended.tensor
        named = {known} if known else self._held.named(tap)
        output = fault.folded.outputs[0] if fault is not None and fault.folded is not None else tap.output
        held = next(iter(tensors.sized(named, output)), None)
        tensor, difference = (None, float("inf")) if held is None else (held.tensor, held.difference)
        return LayerResult(path, tensor, difference, tap.tolerance, True, originates_here=fault is not None)
