"""The signatures of a LiteRT file in a check: each runs as a file of its own, with the cases of its sizes.

TFLite Micro runs the first graph of a file alone, and inner tensors are read from the first graph.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_file import read_interface
from keras_pe.export.artifacts.litert_merging import described_signatures, extract_signature
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.errors import first_line
from keras_pe.export.model.watch.layer_paths import matched_paths
from keras_pe.export.model.watch.nested_arguments import shapes_fit
from keras_pe.export.processes.temporary_folder import TemporaryFolder
from keras_pe.export.results import RunStatus, RuntimeResult

_UNFITTING = "No case has the sizes of the signature (`require_coverage`). Add one with these sizes (`inputs=`)."


@dataclass(frozen=True)
class ExtractedSignature:
    """A signature of a LiteRT file that was written as a file of its own.

    Attributes:
        file: The LiteRT file.
        key: The key of the signature.
        shapes: The shapes of the inputs by name.
    """

    file: Path
    key: str
    shapes: Mapping[str, tuple[int | str, ...]]

    def takes(self, case: Case) -> bool:
        """Returns whether the inputs of a case have the sizes of the signature. Default names may be renumbered."""
        ours = matched_paths(self.shapes, case.inputs)
        return all(
            (array := case.inputs.get(ours.get(name, name))) is not None and shapes_fit(array.shape, shape)
            for name, shape in self.shapes.items()
        )


@dataclass
class FileSignatures:
    """The signatures of LiteRT files as files of their own. `split` fills both attributes.

    Attributes:
        extracted: The signatures by the paths of their own files, in the order of the signatures.
        unreadable: A failed result for each signature that cannot be extracted from its file.
    """

    extracted: dict[Path, ExtractedSignature] = field(default_factory=dict)
    unreadable: list[RuntimeResult] = field(default_factory=list)

    def split(self, targets: Iterable[tuple[str, Path | None]], stack: ExitStack) -> list[tuple[str, Path | None]]:
        """Returns the formats and paths of artifacts, with a file for each signature in place of its LiteRT file.

        Args:
            targets: The format and the path of each artifact; the path None for the model itself.
            stack: Removes the files of the signatures at its end.
        """
        found = list[tuple[str, Path | None]]()
        for format, path in targets:
            keys = _keys(path) if path is not None and format == Format.LITERT else ()
            if path is None or not keys:
                found.append((format, path))
                continue
            for key in keys:
                try:
                    own = write_signature(path, key, stack)
                    shapes = {spec.name: spec.shape for spec in read_interface(own)[0]}
                except Exception as error:  # a damaged file may raise any error
                    self.unreadable.append(unreadable_result(path, key, "none", error))
                    continue
                self.extracted[own] = ExtractedSignature(path, key, shapes)
                found.append((format, own))
        return found

    def select(self, cases: Sequence[Case], paths: Sequence[Path]) -> tuple[Case, ...]:
        """Returns the cases with the sizes of some artifacts. The first signature of a file gets cases of other sizes.

        Args:
            cases: The caller's cases.
            paths: The artifacts. One without several signatures takes every case.
        """
        return tuple(case for case in cases if any(self._takes(path, case) for path in paths))

    def select_answers(self, answers: Sequence[Expectation], path: Path | None) -> tuple[Expectation, ...]:
        """Returns the answers of the reference to the cases that `select` returns for one artifact."""
        return tuple(each for each in answers if self._takes(path, each.case))

    def without_cases(self, paths: Iterable[Path | None]) -> tuple[RuntimeResult, ...]:
        """Returns a failed result for each signature among some artifacts, which no case fits."""
        failed = RuntimeResult("", Format.LITERT, "none", passed=False, status=RunStatus.COMPARED, error=_UNFITTING)
        found = (self.extracted.get(path) for path in dict.fromkeys(paths) if path is not None)
        return tuple(replace(failed, artifact=str(own.file), signature=own.key) for own in found if own is not None)

    def _takes(self, path: Path | None, case: Case) -> bool:
        if path is None or (own := self.extracted.get(path)) is None:
            return True
        together = [each for each in self.extracted.values() if each.file == own.file]
        return own.takes(case) or (own == together[0] and not any(each.takes(case) for each in together))

    def restore(self, result: RuntimeResult) -> RuntimeResult:
        """Returns a result with the artifact and the signature in place of the file of the signature."""
        own = self.extracted.get(Path(result.artifact))
        return result if own is None else replace(result, artifact=str(own.file), signature=own.key)


def _keys(path: Path) -> tuple[str, ...]:
    try:
        return described_signatures(path)
    except Exception:  # a damaged file may raise any error; the runtime will report the fault on loading
        return ()


def write_signature(path: Path, key: str, stack: ExitStack) -> Path:
    """Writes one signature of a LiteRT file as a file of its own, and returns its path.

    Args:
        path: The LiteRT file.
        key: The signature.
        stack: Removes the written file at its end.

    Raises:
        ValueError: If the file lacks the signature. A damaged file may raise any error.
    """
    content = extract_signature(path.read_bytes(), key)
    own = stack.enter_context(TemporaryFolder()).path / f"{path.name}#{key}"
    own.write_bytes(content)
    return own


def unreadable_result(path: Path, key: str, runtime: str, error: Exception) -> RuntimeResult:
    """Returns the failed result of a signature that cannot be extracted from its file.

    Args:
        path: The LiteRT file.
        key: The signature.
        runtime: The runtime that would run the signature.
        error: The error of `write_signature`.
    """
    failed = RuntimeResult(str(path), Format.LITERT, runtime, passed=False, status=RunStatus.NOT_LOADED)
    return replace(failed, error=f"the signature cannot be read: {first_line(error)}", signature=key)
