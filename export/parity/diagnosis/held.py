"""Which of the artifact's tensors holds each layer's output, in one case and with some of them replaced."""

import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.parity.diagnosis.alignment import Match, Tensors, in_layout
from keras_pe.export.parity.diagnosis.names import matched_paths
from keras_pe.export.parity.diagnosis.probe import FAILURES
from keras_pe.export.parity.diagnosis.taps import Tap
from keras_pe.export.publishing.metadata import LAYERS_KEY
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CANDIDATES = 8


@dataclass(frozen=True)
class Place:
    """Where a layer's output may be.

    Attributes:
        match: The tensor.
        gained: The outputs that agree once Keras' own is there, itself among them.
        is_mended: Whether all outputs of the artifact do.
    """

    match: Match
    gained: frozenset[int]
    is_mended: bool

    def mends_more_than(self, numbers: Container[int]) -> bool:
        """Whether more agrees than these."""
        return self.is_mended or any(number not in numbers for number in self.gained)


class HeldOutputs:
    """The artifact in one case, and where it holds what the layers return.

    Attributes:
        taps: The layers' outputs, in the order of computation.
        replaced: What stands in the place of tensors of the artifact.
        tensors: All of its tensors.
        matches: The tensor that holds each output, by its number; None where none does.
        differing: The numbers of the outputs that the artifact gets wrong.
    """

    tensors: Tensors
    differing: set[int]

    def __init__(self, runner: Runner, expectation: Expectation, taps: list[Tap]) -> None:
        self.taps = taps
        self.replaced: Arrays = {}
        self.matches: dict[int, Match | None] = {}
        self._runner = runner
        self._expectation = expectation
        self._names = _names_of(runner, taps)
        self._claimed = {name for names in self._names.values() for name in names if name is not None}
        self._consumers: dict[int, list[int]] = {}
        for tap in taps:
            for source in tap.sources:
                self._consumers.setdefault(source, []).append(tap.number)
        for tap in taps:  # what no layer is given goes into the layer around it
            whole = tap.call.path.rpartition("/")[0]
            if whole and tap.number not in self._consumers:
                parents = (each.number for each in taps[tap.number + 1 :] if each.call.path.partition("#")[0] == whole)
                self._consumers[tap.number] = list(parents)[:1]
        self._read()

    def replace(self, match: Match, output: Array) -> None:
        """Puts an output of Keras in the place of a tensor, and looks at everything again."""
        self.replaced[match.tensor] = in_layout(output, match)
        self._read()

    def place(self, tap: Tap) -> Place | None:
        """Returns the tensor in whose place Keras' output mends most of what comes after; None where none does."""
        best: Place | None = None
        for match in self._candidates(tap):
            try:
                tensors = self._run({**self.replaced, match.tensor: in_layout(tap.output, match)})
            except FAILURES:
                continue
            gained = (
                each.number
                for each in self.taps
                if self.matches[each.number] is None and self._match(each, tensors) is not None
            )
            place = Place(match, frozenset(gained), self.outputs_pass(tensors)[2])
            if place.is_mended:
                return place
            if place.gained and (best is None or len(place.gained) > len(best.gained)):
                best = place
        return best

    def _match(self, tap: Tap, tensors: Tensors) -> Match | None:
        """Returns the tensor that holds a layer's output: the one that the exporter has named, or one by its value.

        The values may stand elsewhere as well, beside the way: in a tensor that is named for another output, or in any
        where the named one is there and holds others.
        """
        named = self.named(tap)
        if named and tensors.sized(named, tap.output):
            return tensors.find(tap.output, tap.tolerance, named)
        return tensors.find(tap.output, tap.tolerance, set(tensors.names) - self._claimed)

    def named(self, tap: Tap) -> set[str]:
        """Returns the tensor in which the exporter says that a layer's output is, if it does."""
        names = self._names.get(tap.call.path, ())
        name = names[tap.index] if tap.index < len(names) else None
        return {name} & self.tensors.arrays.keys() if name is not None else set()

    def _candidates(self, tap: Tap) -> list[Match]:
        """Returns the tensors that may hold a layer's output: those named for it, after it, then the nearest.

        Before these comes what the layer was given: it may have been left out.
        """
        known = self.tensors.sized(self.named(tap), tap.output)
        if known:
            return known
        layer = re.escape(tap.call.layer.name)
        scope = re.compile(rf"(^|/){layer}(_\d+)?(/|:|$)")
        scoped = self.tensors.sized([name for name in self.tensors.names if scope.search(name)], tap.output)
        others = (match for number, match in self.matches.items() if number not in tap.sources)
        taken = {match.tensor for match in others if match is not None} | set(self.replaced)
        sources = [match.tensor for number in tap.sources if (match := self.matches[number]) is not None]
        given = self.tensors.sized(sources, tap.output)
        nearest = self.tensors.nearest(tap.output)
        free = [match for match in [*reversed(scoped), *given, *nearest] if match.tensor not in taken]
        several = {(match.tensor, match.axes): match for match in free}
        return list(several.values())[:_MOST_CANDIDATES]

    def consumers(self, tap: Tap) -> list[Tap]:
        """Returns what the layers that are given an output return."""
        return [self.taps[number] for number in self._consumers.get(tap.number, [])]

    def outputs_pass(self, tensors: Tensors | None = None) -> tuple[float, float, bool]:
        """Returns the worst difference of the model's outputs, its tolerance, and whether all are within theirs."""
        tensors = tensors or self.tensors
        expected = self._expectation.in_float32 or self._expectation.outputs or {}
        actual = {name: tensors.arrays[name] for name in expected if name in tensors.arrays}
        comparisons = compare_outputs(expected, actual, self._expectation.truth)
        worst = max(comparisons, key=lambda c: (not c.passed, c.max_abs_diff / (c.tolerance or 1e-300)))
        return worst.max_abs_diff, worst.tolerance, all(c.passed for c in comparisons)

    def _run(self, replaced: Arrays) -> Tensors:
        inputs = self._expectation.case.inputs
        return Tensors({**inputs, **self._runner.intermediates(inputs, replaced)})

    def _read(self) -> None:
        """Runs the artifact with everything replaced that is to be, and looks for each layer's output in it."""
        self.tensors = self._run(self.replaced)
        # A tensor that held one output, and has been replaced by another's, held it all the same.
        kept = {number: m for number, m in self.matches.items() if m is not None and m.tensor in self.replaced}
        self.matches = {tap.number: kept.get(tap.number) or self._match(tap, self.tensors) for tap in self.taps}
        self.differing = self._find_differing()

    def _find_differing(self) -> set[int]:
        """Returns the outputs that the artifact gets wrong.

        Where the exporter has said which tensor a layer's output is, that tensor tells. Else a layer without its like
        in the artifact may have been merged into the next one: it is wrong if every recorded layer it leads to is.
        """
        differing = set[int]()
        for tap in reversed(self.taps):
            if self.matches[tap.number] is not None:
                continue
            named = self.tensors.sized(self.named(tap), tap.output)
            after = self._consumers.get(tap.number, [])
            if named or not after or any(number in differing for number in after):
                differing.add(tap.number)
        return differing


def _names_of(runner: Runner, taps: list[Tap]) -> Mapping[str, Sequence[str | None]]:
    """Returns the tensors of each call of a layer by its path, as far as the exporter has written them down."""
    names: dict[str, list[str | None]] = json.loads(runner.metadata().get(LAYERS_KEY, "{}"))
    return {path: names[other] for path, other in matched_paths([tap.call.path for tap in taps], names).items()}
