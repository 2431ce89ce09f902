"""Results of shards on disk: each whole or not there, under a name that is the hash of all that made it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_pe.export.errors import first_line
from keras_pe.export.parity.data.shards import Shard, fingerprint
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.publishing.staging import staging

_VERSION = 3  # of what a result holds


class Checkpoint:
    """A folder of results. What stands in it was done and need not be done again.

    A result's name is the hash of the shard, the model, the artifact, the runtime and the options: whatever changes,
    an old result is not taken for a new one, and it stays for the day when the change is taken back.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, key: str, shard: Shard) -> RuntimeStatistics | None:
        """Returns the result, None where there is none or where it is not whole."""
        try:
            return RuntimeStatistics.from_bytes(self._path(key, shard).read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def save(self, key: str, shard: Shard, statistics: RuntimeStatistics) -> None:
        """Writes a result beside its place and renames it.

        Raises:
            OSError: If it cannot be written. The results before it stay.
        """
        path = self._path(key, shard)
        try:
            with staging(path) as folder:
                part = folder / path.name
                part.write_bytes(statistics.to_bytes())
                part.replace(path)
        except OSError as error:
            raise OSError(
                f"A result could not be written to {self._folder}: {first_line(error)}. What was finished before stays "
                "there; the same call goes on from it."
            ) from error

    def _path(self, key: str, shard: Shard) -> Path:
        return self._folder / f"{shard.index:06d}-{fingerprint(key, shard.index, shard.fingerprint)[:32]}.npz"


def result_key(**parts: Any) -> str:
    """Returns the part of a result's name that all shards share."""
    return fingerprint(_VERSION, {name: _plain(value) for name, value in parts.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
