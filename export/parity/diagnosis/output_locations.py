"""Locates each layer's output among the artifact's tensors, in one case and with some tensors replaced."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from keras_pe.export.artifacts.artifact import read_layer_tensors
from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.layer_paths import is_within, matched_paths
from keras_pe.export.parity.diagnosis.recorded_cases import RecordedCase, RecordedOutput
from keras_pe.export.parity.diagnosis.tensor_search import TensorMatch, Tensors
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays

_MOST_CANDIDATES = 8
_MOST_TOGETHER = 24  # assignments of tensors to the outputs of one call
_FEW_TOGETHER = 2  # number of outputs up to which these assignments cover nearly all likely ones
_NUMBER = re.compile(r"_\d+$")  # the suffix that TensorFlow adds to the name of a scope that exists already


@dataclass(frozen=True)
class Location:
    """A possible location of a layer's output.

    Attributes:
        way: The tensor, and the tensors of the outputs that were replaced together with it.
        gained: The outputs that agree after the replacement, including the output itself.
        is_mended: Whether all outputs of the artifact agree after it.
        off: The worst difference of the artifact's outputs.
    """

    way: tuple[TensorMatch, ...]
    gained: frozenset[int]
    is_mended: bool
    off: float

    @property
    def match(self) -> TensorMatch:
        """The tensor of the output."""
        return self.way[0]

    def mends_more_than(self, numbers: Container[int]) -> bool:
        """Whether other outputs than these agree after the replacement."""
        return self.is_mended or any(number not in numbers for number in self.gained)


class OutputLocations:
    """The artifact in one case, and the locations of the layers' outputs.

    Attributes:
        outputs: The layers' outputs, in the order of computation.
        replaced: Replacements of the artifact's tensors.
        tensors: All tensors of the artifact.
        matches: The tensor of each output, by the output's number; None if no tensor has it.
        differing: The numbers of the outputs that the artifact gets wrong.
    """

    tensors: Tensors
    differing: set[int]

    def __init__(self, case: RecordedCase) -> None:
        self.outputs = outputs = case.outputs
        self.replaced: Arrays = {}
        self.matches: dict[int, TensorMatch | None] = {}
        self._case = case
        self._names, self._scopes = _names_of(case.probe.runner, outputs)
        self._guessed: dict[int, TensorMatch] = {}  # best locations from searches for other outputs of the call
        self._claimed = {name for names in self._names.values() for name in names if name is not None}
        self._layers = {name for output in outputs for name in output.layer.split("/")}
        self._consumers: dict[int, list[int]] = {}
        for output in outputs:
            for source in output.sources:
                self._consumers.setdefault(source, []).append(output.number)
        for output in outputs:  # an output that no layer takes belongs to the enclosing layer
            whole = output.call.path.rpartition("/")[0]
            if whole and output.number not in self._consumers:
                parents = (each.number for each in outputs[output.number + 1 :] if each.layer == whole)
                self._consumers[output.number] = list(parents)[:1]
        self._read()

    def replace(self, match: TensorMatch, output: Array) -> None:
        """Replaces a tensor by an output of Keras, and locates all outputs again."""
        self.replaced |= self.tensors.in_place_of(match, output)
        self._read()

    def locate(self, output: RecordedOutput) -> Location | None:
        """Returns the tensor whose replacement corrects most of the later outputs; None if none does.

        If no name identifies the outputs of one call, such as the states of a recurrence, all wrong ones are replaced
        together. Later outputs may need each of them.
        """
        if self.is_gone(output):
            return None
        beside = (each for each in self.outputs if each.call is output.call and each.number in self.differing)
        unnamed = [each for each in beside if each.number != output.number and not self.names_of(each)]
        together = [output] if self.names_of(output) else [output, *unnamed]
        candidates = [self._candidates_with_copies(each) for each in together]
        best: Location | None = None
        ways = _beam(candidates)
        for way in ways:
            location = self.put(together, way)
            is_better = location is not None and (best is None or len(location.gained) > len(best.gained))
            if location is not None and (location.is_mended or (location.gained and is_better)):
                best = location
            if location is not None and location.is_mended:
                break
        if len(together) > _FEW_TOGETHER and ways and not (best is not None and best.is_mended):
            best = self._exchange(together, candidates, best.way if best is not None else ways[0])
        if best is not None:
            self._guessed |= {each.number: match for each, match in zip(together, best.way, strict=True)}
        return best

    def _exchange(
        self, outputs: Sequence[RecordedOutput], choices: Sequence[Sequence[TensorMatch]], way: tuple[TensorMatch, ...]
    ) -> Location | None:
        """Returns a location after exchanging one tensor at a time, as long as the model's outputs come nearer."""
        best = self.put(outputs, way)
        for number, matches in enumerate(choices):
            used = {name for place, match in enumerate(way) if place != number for name in match.tensors}
            for match in (each for each in matches if used.isdisjoint(each.tensors)):
                if best is not None and best.is_mended:
                    return best
                location = self.put(outputs, (*way[:number], match, *way[number + 1 :]))
                if location is not None and (best is None or location.off < best.off):
                    best, way = location, location.way
        return best if best is not None and best.gained else None

    def put(self, outputs: Sequence[RecordedOutput], way: Sequence[TensorMatch]) -> Location | None:
        """Returns the location of outputs that have one tensor each, or None if that is impossible."""
        put: Arrays = {}
        for each, match in zip(outputs, way, strict=True):
            put |= self.tensors.in_place_of(match, each.array)
        try:
            tensors = self._case.run_inside({**self.replaced, **put})
        except RuntimeFailedError:
            return None
        gained = (
            each.number
            for each in self.outputs
            if self.matches[each.number] is None and each not in outputs[1:] and self._match(each, tensors) is not None
        )
        off, _, is_mended = self.outputs_pass(tensors)
        location = Location(tuple(way), frozenset(gained), is_mended, off)
        # A replacement that breaks a right output belongs to another layer's tensor.
        is_wrong = not is_mended and not self.names_of(outputs[0]) and self._breaks(put, tensors)
        return None if is_wrong else location

    def _candidates_with_copies(self, output: RecordedOutput) -> list[TensorMatch]:
        """Returns the tensors that may have an output, each with the tensors of equal values."""
        right = {number: match.tensor for number, match in self.matches.items() if match is not None}
        others = {tensor for number, tensor in right.items() if number != output.number} | self._case.inputs.keys()
        return [self.tensors.with_copies(match, output.array.shape, others) for match in self._candidates(output)]

    def _breaks(self, replaced: Container[str], tensors: Tensors) -> bool:
        """Whether replacing tensors makes other, right outputs wrong."""
        right = ((each, match) for each in self.outputs if (match := self.matches[each.number]) is not None)
        others = (each for each, match in right if match.tensor not in replaced and match.tensor not in self.replaced)
        return any(self._match(each, tensors) is None for each in others)

    def _match(self, output: RecordedOutput, tensors: Tensors) -> TensorMatch | None:
        """Returns the tensor of a layer's output, by the exporter's name or else by its values.

        Tensors with equal values may be off the path of the computation. Tensors that are named for other outputs are
        therefore excluded, and so are all others if the named tensor exists.
        """
        named = self.names_of(output)
        if named and tensors.with_size(named, output.array):
            return tensors.find(output.array, output.tolerance, named)
        return tensors.find(output.array, output.tolerance, set(tensors.names) - self._claimed)

    def names_of(self, output: RecordedOutput) -> set[str]:
        """Returns the tensor that the exporter has named for a layer's output, if it exists."""
        return {self._name(output) or ""} & self.tensors.arrays.keys()

    def is_unnamed(self, output: RecordedOutput) -> bool:
        """Whether the exporter has named the tensors of layers, and none for this output: another one includes it."""
        return bool(self._names) and self._name(output) is None

    def is_gone(self, output: RecordedOutput) -> bool:
        """Whether the exporter has named a tensor for an output that the artifact no longer has."""
        name = self._name(output)
        return name is not None and name not in self.tensors.arrays

    def _name(self, output: RecordedOutput) -> str | None:
        names = self._names.get(output.call.path, ())
        return names[output.index] if output.index < len(names) else None

    def _candidates(self, output: RecordedOutput) -> list[TensorMatch]:
        """Returns the candidate tensors for a layer's output: by the exporter's name, then by scope, then the nearest.

        A guess from another output of the call comes first. A layer's input counts as a near tensor: the input of a
        clip gives right results as well if it is clipped twice.
        """
        if named := self.names_of(output):
            return self.tensors.with_size(named, output.array)  # empty if it has another size
        layer = re.escape(output.call.layer.name)
        scope = re.compile(rf"(^|/){layer}(_\d+)?(/|:|$)")
        scoped = self.tensors.with_size([name for name in self.tensors.names if scope.search(name)], output.array)
        others = (match for number, match in self.matches.items() if number not in output.sources)
        taken = {match.tensor for match in others if match is not None} | set(self.replaced)
        sources = [match.tensor for number in output.sources if (match := self.matches[number]) is not None]
        given = self.tensors.with_size(sources, output.array)
        nearest = (match for match in self.tensors.nearest(output.array) if not self._is_within_another(match, output))
        guessed = [self._guessed[output.number]] if output.number in self._guessed else []
        near = sorted([*given, *nearest], key=lambda match: match.difference)
        free = [match for match in [*guessed, *reversed(scoped), *near] if match.tensor not in taken]
        several = {(match.tensor, match.axes): match for match in free}
        return list(several.values())[:_MOST_CANDIDATES]

    def _is_within_another(self, match: TensorMatch, output: RecordedOutput) -> bool:
        """Whether a tensor belongs to the inside of another layer, by the exporter's names or by its scope."""
        own = self._scopes.get(output.call.path, output.call.path)
        parts = match.tensor.split("/")
        if not self._scopes:
            around = {name for part in parts[:-1] for name in (part, _NUMBER.sub("", part))} & self._layers
            return bool(around) and around.isdisjoint(output.layer.split("/"))
        around = {"/".join(parts[:number]) for number in range(1, len(parts))}
        others = {each for each in around if any(is_within(scope, each) for scope in self._scopes.values())}
        return any(not is_within(own, each) and not each.startswith(f"{own}/") for each in others)

    def numbers_after(self, number: int) -> list[int]:
        """Returns the numbers of the outputs of the layers that take an output."""
        return self._consumers.get(number, [])

    def consumers(self, output: RecordedOutput) -> list[RecordedOutput]:
        """Returns the outputs of the layers that take an output."""
        return [self.outputs[number] for number in self.numbers_after(output.number)]

    def outputs_pass(self, tensors: Tensors | None = None) -> tuple[float, float, bool]:
        """Returns the worst difference of the model's outputs, its tolerance, and whether all outputs pass."""
        tensors = tensors or self.tensors
        expectation = self._case.expectation
        expected = expectation.in_float32 or expectation.outputs or {}
        actual = {name: tensors.arrays[name] for name in expected if name in tensors.arrays}
        comparisons = compare_outputs(expected, actual, expectation.truth)
        worst = max(comparisons, key=lambda c: (not c.passed, c.max_abs_diff / (c.tolerance or 1e-300)))
        return worst.max_abs_diff, worst.tolerance, all(c.passed for c in comparisons)

    def _read(self) -> None:
        """Runs the artifact with all replacements, and locates each layer's output."""
        self.tensors = self._case.run_inside(self.replaced)
        # A tensor that had one output still counts for it after another output has replaced its values.
        kept = {number: m for number, m in self.matches.items() if m is not None and m.tensor in self.replaced}
        self.matches = {
            output.number: kept.get(output.number) or self._match(output, self.tensors) for output in self.outputs
        }
        self.differing = self._find_differing()

    def _find_differing(self) -> set[int]:
        """Returns the outputs that the artifact gets wrong.

        A tensor that the exporter has named for an output decides. A layer without a tensor may have been fused into
        the next one. It is then wrong if a recorded layer after it is.
        """
        differing = set[int]()
        for output in reversed(self.outputs):
            if self.matches[output.number] is not None:
                continue
            named = self.tensors.with_size(self.names_of(output), output.array)
            after = self.numbers_after(output.number)
            if named or not after or any(number in differing for number in after):
                differing.add(output.number)
        return differing


def _beam(candidates: Sequence[Sequence[TensorMatch]]) -> list[tuple[TensorMatch, ...]]:
    """Returns assignments of one tensor to each output: the likeliest first, then the nearest.

    Args:
        candidates: The candidate tensors of each output, the likeliest first.
    """
    beam: list[tuple[int, float, frozenset[str], tuple[TensorMatch, ...]]] = [(0, 0.0, frozenset(), ())]
    for matches in candidates:
        longer = (
            (ranks + rank, off + match.difference, used | match.tensors, (*way, match))
            for ranks, off, used, way in beam
            for rank, match in enumerate(matches)
            if used.isdisjoint(match.tensors)
        )
        beam = sorted(longer, key=lambda each: each[:2])[:_MOST_TOGETHER]
    return [way for *_, way in beam]


def _names_of(
    runner: Runner, outputs: list[RecordedOutput]
) -> tuple[Mapping[str, Sequence[str | None]], Mapping[str, str]]:
    """Returns the tensors of each layer call by its path, and the artifact's name of each call.

    The exporter has recorded both or neither.
    """
    try:
        names = read_layer_tensors(runner.metadata())
    except ValueError:  # A damaged record leaves the search by values.
        names = {}
    scopes = matched_paths([each.call.path for each in outputs], names)
    return {path: names[other] for path, other in scopes.items()}, scopes
