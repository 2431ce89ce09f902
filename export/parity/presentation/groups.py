"""Results that say the same are said once: the variants of a runtime that agree on an artifact."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from keras_pe.export.results import Comparison, RuntimeResult
from keras_pe.export.runtimes.runtime import RuntimeName


@dataclass(frozen=True)
class Group:
    """Results of one artifact in variants of one runtime, with the same verdict, causes and layers.

    Attributes:
        results: At least one, in the order of the check.
    """

    results: tuple[RuntimeResult, ...]

    @property
    def first(self) -> RuntimeResult:
        """The result that stands for all."""
        return self.results[0]

    @property
    def name(self) -> str:
        """What ran: "onnxruntime, 5 levels", or the one runtime's name."""
        if len(self.results) == 1:
            return self.first.runtime
        family = str(RuntimeName.parse(self.first.runtime).any_variant)
        return f"{family}, {len(self.results)} {'levels' if family == 'onnxruntime' else 'variants'}"

    @property
    def artifact(self) -> str:
        """The artifact's name without its folder, or the format where there is none."""
        return self.first.artifact.rstrip("/").rpartition("/")[2] or self.first.format

    @property
    def passed(self) -> bool:
        """The verdict that all share."""
        return self.first.passed

    @property
    def worst(self) -> tuple[RuntimeResult, str, Comparison] | None:
        """The result, case and comparison that is furthest out of tolerance; None where nothing was compared."""
        found = [(result, *result.worst) for result in self.results if result.worst is not None]
        return max(found, key=lambda row: (not row[2].passed, row[2].max_abs_diff), default=None)


def group_results(results: Sequence[RuntimeResult]) -> tuple[Group, ...]:
    """Returns results in groups, in the order of the check."""
    return tuple(Group(tuple(alike)) for alike in _grouped(results))


def _grouped(results: Sequence[RuntimeResult]) -> Iterator[list[RuntimeResult]]:
    groups: dict[object, list[RuntimeResult]] = {}
    for result in results:
        family = RuntimeName.parse(result.runtime).any_variant
        causes = (result.findings, result.layers, result.proof, result.error)
        key = (result.artifact, family, result.passed, result.status, len(result.cases), causes)
        groups.setdefault(key, []).append(result)
    yield from groups.values()
