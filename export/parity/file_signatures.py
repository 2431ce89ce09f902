"""The signatures of a LiteRT file in a check: each runs as a file of its own, with the cases of its sizes.

TFLite Micro runs the first graph of a file alone, and inner tensors are read from the first graph.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_merging import described_signatures, extract_signature
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.results import RuntimeResult


@dataclass(frozen=True)
class Part:
    """A signature of a file.

    Attributes:
        file: The file.
        key: The key of the signature.
        shapes: The shapes of the inputs by name.
    """

    file: Path
    key: str
    shapes: dict[str, tuple[int | str, ...]]

    def takes(self, case: Case) -> bool:
        """Returns whether the inputs of a case have the sizes of the signature."""
        return {name: array.shape for name, array in case.inputs.items()} == self.shapes


@dataclass(frozen=True)
class FileSignatures:
    """The signatures of LiteRT files as files of their own.

    Attributes:
        parts: The signatures by the paths of their own files, in the order of the signatures.
    """

    parts: dict[Path, Part] = field(default_factory=dict)

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
                own = write_signature(path, key, stack)
                self.parts[own] = Part(path, key, {spec.name: spec.shape for spec in read_artifact(own).inputs})
                found.append((format, own))
        return found

    def select(self, cases: Sequence[Case], paths: Iterable[Path]) -> tuple[Case, ...]:
        """Returns the cases with the sizes of some artifacts. The first signature of a file gets cases of other sizes.

        Args:
            cases: The caller's cases.
            paths: The artifacts. One without several signatures takes every case.
        """
        return tuple(case for case in cases if any(self._takes(path, case) for path in paths))

    def _takes(self, path: Path, case: Case) -> bool:
        if (own := self.parts.get(path)) is None:
            return True
        together = [part for part in self.parts.values() if part.file == own.file]
        return own.takes(case) or (own == together[0] and not any(part.takes(case) for part in together))

    def restore(self, result: RuntimeResult) -> RuntimeResult:
        """Returns a result with the artifact and the signature in place of the file of the signature."""
        part = self.parts.get(Path(result.artifact))
        return result if part is None else replace(result, artifact=str(part.file), signature=part.key)


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
        ValueError: If the file lacks the signature.
    """
    own = Path(stack.enter_context(TemporaryDirectory())) / f"{path.name}#{key}"
    own.write_bytes(extract_signature(path.read_bytes(), key))
    return own
