"""What the files of artifacts hold, as hashes."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from keras_pe.export.artifacts.reading import artifact_files


def hash_files(artifact: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of an artifact, by its path from the artifact's folder.

    Raises:
        ValueError, OSError: If the files cannot be told or read.
    """
    home = artifact if artifact.is_dir() else artifact.parent
    return {str(file.relative_to(home)): _sha256(file) for file in artifact_files(artifact) if file.is_file()}


def hash_artifacts(artifacts: Iterable[Path]) -> dict[str, str]:
    """Returns the SHA-256 of each file of some artifacts, by its path; those that cannot be read are left out."""
    found: dict[str, str] = {}
    for artifact in dict.fromkeys(artifacts):
        home = artifact if artifact.is_dir() else artifact.parent
        try:
            found |= {str(home / name): value for name, value in hash_files(artifact).items()}
        except Exception:  # whatever a file that was cut or changed makes of the readers; its runtimes say so
            continue
    return found


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
