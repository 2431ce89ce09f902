"""Where: the layers at fault, found by putting Keras' own outputs in the place of the artifact's, one after another."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from keras_pe.export.parity.diagnosis.alignment import Match, Tensors, in_layout
from keras_pe.export.parity.diagnosis.folding import is_foldable
from keras_pe.export.parity.diagnosis.probe import FAILURES, LayerFault
from keras_pe.export.parity.diagnosis.taps import Tap, record_taps
from keras_pe.export.parity.references.keras import KerasReference
from keras_pe.export.parity.references.reference import Expectation
from keras_pe.export.parity.results import Array, LayerResult, Proof
from keras_pe.export.parity.verdict.compare import compare_outputs
from keras_pe.export.parity.verdict.run import Runner
from keras_pe.export.parity.verdict.tolerance import flat_tolerance
from keras_pe.export.publishing.metadata import LAYERS_KEY
from keras_pe.export.runtimes.runtime import Arrays

_MOST_FAULTS = 32
_SLACK = 4.0  # for values of which no noise is known
_MOST_CANDIDATES = 8


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


@dataclass(frozen=True)
class _Place:
    """Where a layer's output may be.

    Attributes:
        match: The tensor.
        gained: How many layers agree once Keras' output is there, the layer itself among them; 1000 more where all
            outputs of the artifact do.
        others: The same without the layer itself.
    """

    match: Match
    gained: int
    others: int


class _Walk:
    """The artifact in one case, with what has been replaced in it so far."""

    def __init__(self, runner: Runner, expectation: Expectation, taps: list[Tap]) -> None:
        self._runner = runner
        self._expectation = expectation
        self._taps = taps
        self._replaced: Arrays = {}
        self._matches: dict[int, Match | None] = {}
        self._faults: list[tuple[Tap, LayerFault]] = []
        self._names = _names_of(runner)
        self._claimed = {name for names in self._names.values() for name in names if name is not None}
        self._consumers: dict[int, list[int]] = {}
        for tap in taps:
            for source in tap.sources:
                self._consumers.setdefault(source, []).append(tap.number)
        self._read()

    def trace(self) -> Trace:
        plain, before, differing = self._matches, self._tensors, self._differing
        is_sound = self._outputs_pass()[2]
        while not self._outputs_pass()[2] and len(self._faults) < _MOST_FAULTS:
            tap = self._first_that_differs()
            if tap is None or not self._replace(self._enclosing(tap)):
                break
        blamed = {tap.number: tap for tap, _ in self._faults}
        taps = [blamed.get(tap.number, tap) for tap in self._taps]
        results = tuple(self._result(tap, plain[tap.number], before, tap.number in differing) for tap in taps)
        return Trace(results, tuple(fault for _, fault in self._faults), self._proof(), is_sound)

    def _read(self) -> None:
        """Runs the artifact with everything replaced that is to be, and looks for each layer's output in it."""
        arrays = self._runner.intermediates(self._expectation.case.inputs, self._replaced)
        self._tensors = Tensors({**self._expectation.case.inputs, **arrays})
        # A tensor that held one output, and has been replaced by another's, held it all the same.
        kept = {number: m for number, m in self._matches.items() if m is not None and m.tensor in self._replaced}
        self._matches = {tap.number: kept.get(tap.number) or self._match(tap, self._tensors) for tap in self._taps}
        self._differing = self._find_differing()

    def _match(self, tap: Tap, tensors: Tensors) -> Match | None:
        """Returns the tensor that holds a layer's output: the one that the exporter has named, or one by its value.

        What another layer is said to return may have the same values, and is not taken for this one's.
        """
        named = self._named(tap)
        if not named:
            return tensors.find(tap.output, tap.tolerance)
        return tensors.find(tap.output, tap.tolerance, named) or tensors.find(
            tap.output, tap.tolerance, set(tensors.names) - self._claimed
        )

    def _named(self, tap: Tap) -> set[str]:
        """Returns the tensor in which the exporter says that a layer's output is, if it does."""
        names = self._names.get(tap.call.path, ())
        name = names[tap.index] if tap.index < len(names) else None
        return {name} & self._tensors.arrays.keys() if name is not None else set()

    def _find_differing(self) -> set[int]:
        """Returns the taps that the artifact gets wrong.

        Where the exporter has said which tensor a layer's output is, that tensor tells. Else a layer without its like
        in the artifact may have been merged into the next one: it is wrong if every recorded layer it leads to is.
        """
        differing = set[int]()
        for tap in reversed(self._taps):
            if self._matches[tap.number] is not None:
                continue
            named = self._tensors.sized(self._named(tap), tap.output)
            after = self._consumers.get(tap.number, [])
            if named or not after or any(number in differing for number in after):
                differing.add(tap.number)
        return differing

    def _first_that_differs(self) -> Tap | None:
        done = {tap.number for tap, _ in self._faults}
        return next((tap for tap in self._taps if tap.number in self._differing and tap.number not in done), None)

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
        return self._tensors.holds(array, _SLACK * flat_tolerance(array))

    def _replace(self, tap: Tap) -> bool:
        """Puts Keras' output in the place of the tensor that should hold it; False where no tensor can be found."""
        found = self._place(tap)
        if found is None or not found.others:
            after = self._folded_after(tap)
            place = None if after is None else self._place(after)
            if after is not None and place is not None and place.others:
                fault = LayerFault(tap.call, tap.index, place.match.tensor, None, tap.tolerance, after.call)
                return self._put(tap, fault, after.output, place.match)
        if found is None:
            held = next((self._tensors.arrays[name] for name in self._named(tap)), None)
            self._faults.append((tap, LayerFault(tap.call, tap.index, None, None, tap.tolerance, held=held)))
            return False
        actual = self._tensors.in_shape(found.match, tap.output.shape)
        fault = LayerFault(tap.call, tap.index, found.match.tensor, actual, tap.tolerance)
        fault = replace(fault, loose=tap.loose_inputs, before=self._before(tap), unsure=self._unsure(tap))
        return self._put(tap, fault, tap.output, found.match)

    def _unsure(self, tap: Tap) -> tuple[LayerFault, ...]:
        """Returns the layers before one that are known by their values alone, where the exporter names others."""
        sources = [self._taps[number] for number in tap.sources if self._names]
        unnamed = [each for each in sources if not self._named(each)]
        return tuple(LayerFault(each.call, each.index, None, None, each.tolerance) for each in unnamed)

    def _before(self, tap: Tap) -> tuple[tuple[str, Array], ...]:
        """Returns what the code around a layer may have computed its inputs from: the nearest of their shapes first."""
        shapes = {array.shape for array in tap.loose_inputs}
        outputs = [(each.call.path, each.output) for each in self._taps[: tap.number]]
        known = [*reversed(outputs), *self._expectation.case.inputs.items()]
        return tuple((path, array) for path, array in known if array.shape in shapes)[:_MOST_CANDIDATES]

    def _put(self, tap: Tap, fault: LayerFault, output: Array, match: Match) -> bool:
        self._faults.append((tap, fault))
        self._replaced[match.tensor] = in_layout(output, match)
        self._read()
        return True

    def _place(self, tap: Tap) -> _Place | None:
        """Returns the tensor in whose place Keras' output mends most of what comes after; None where none does."""
        best: _Place | None = None
        for match in self._candidates(tap):
            given = in_layout(tap.output, match)
            try:
                arrays = self._runner.intermediates(
                    self._expectation.case.inputs, {**self._replaced, match.tensor: given}
                )
            except FAILURES:
                continue
            tensors = Tensors({**self._expectation.case.inputs, **arrays})
            gained = {
                each.number
                for each in self._taps
                if self._matches[each.number] is None and self._match(each, tensors) is not None
            }
            mended = 1000 * self._outputs_pass(tensors)[2]
            place = _Place(match, len(gained) + mended, len(gained - {tap.number}) + mended)
            if place.gained and (best is None or place.gained > best.gained):
                best = place
            if mended:
                break
        return best

    def _folded_after(self, tap: Tap) -> Tap | None:
        """Returns the normalization after a layer that an exporter may have folded into its weights."""
        after = [self._taps[number] for number in self._consumers.get(tap.number, [])]
        is_apart = len(after) != 1 or bool(self._named(tap)) or self._matches[after[0].number] is not None
        return None if is_apart or not is_foldable(tap.call.layer, after[0].call.layer) else after[0]

    def _candidates(self, tap: Tap) -> list[Match]:
        """Returns the tensors that may hold a layer's output: those named for it, after it, then the nearest.

        What the layer was given is among them: it may have been left out.
        """
        known = self._tensors.sized(self._named(tap), tap.output)
        if known:
            return known
        layer = re.escape(tap.call.layer.name)
        scope = re.compile(rf"(^|/){layer}(_\d+)?(/|:|$)")
        scoped = self._tensors.sized([name for name in self._tensors.names if scope.search(name)], tap.output)
        others = (match for number, match in self._matches.items() if number not in tap.sources)
        taken = {match.tensor for match in others if match is not None} | set(self._replaced)
        nearest = self._tensors.nearest(tap.output)
        free = [match for match in [*reversed(scoped), *nearest] if match.tensor not in taken]
        several = {(match.tensor, match.channels_first): match for match in free}
        return list(several.values())[:_MOST_CANDIDATES]

    def _outputs_pass(self, tensors: Tensors | None = None) -> tuple[float, float, bool]:
        """Returns the worst difference of the outputs, its tolerance, and whether all are within theirs."""
        tensors = tensors or self._tensors
        expected = self._expectation.in_float32 or self._expectation.outputs or {}
        actual = {name: tensors.arrays[name] for name in expected if name in tensors.arrays}
        comparisons = compare_outputs(expected, actual, self._expectation.truth)
        worst = max(comparisons, key=lambda c: (not c.passed, c.max_abs_diff / (c.tolerance or 1e-300)))
        return worst.max_abs_diff, worst.tolerance, all(c.passed for c in comparisons)

    def _proof(self) -> Proof | None:
        if not self._replaced:
            return None
        layers = tuple(dict.fromkeys(tap.call.path for tap, fault in self._faults if fault.tensor is not None))
        return Proof(layers, *self._outputs_pass())

    def _result(self, tap: Tap, match: Match | None, tensors: Tensors, differs: bool) -> LayerResult:
        """Returns what a layer's output was in the artifact as it is: `match` where it held it."""
        path = tap.call.path
        if match is not None:
            return LayerResult(path, match.tensor, match.difference, tap.tolerance, differs=False)
        fault = next((fault for each, fault in self._faults if each.number == tap.number), None)
        mended = self._matches[tap.number]
        if fault is None and not differs:
            return LayerResult(path, None, float("inf"), tap.tolerance, differs=False)
        known = fault.tensor if fault is not None else None if mended is None else mended.tensor
        named = {known} if known else self._named(tap)
        output = fault.folded.outputs[0] if fault is not None and fault.folded is not None else tap.output
        held = next(iter(tensors.sized(named, output)), None)
        tensor, difference = (None, float("inf")) if held is None else (held.tensor, held.difference)
        return LayerResult(path, tensor, difference, tap.tolerance, True, originates_here=fault is not None)


def _names_of(runner: Runner) -> Mapping[str, Sequence[str | None]]:
    """Returns the tensors of each call of a layer by its path, as far as the exporter has written them down."""
    names: dict[str, list[str | None]] = json.loads(runner.metadata().get(LAYERS_KEY, "{}"))
    return names
