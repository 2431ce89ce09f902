"""One artifact in one runtime over many rows: what a shard returns, and what shards merge into."""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from keras_pe.export.parity.statistics.output import OutputStatistics
from keras_pe.export.parity.statistics.worst import WorstRow, keep_worst, worst_from_dict, worst_to_dict
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import as_dtype

WORST = 8
"""How many rows are kept whole."""

_MEMBER = "statistics.json"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the time of writing is no part of a result


@dataclass(frozen=True)
class RuntimeStatistics:
    """One artifact in one runtime over the rows of a shard, or of many.

    Attributes:
        rows: Rows fed.
        failed: Rows that fail in any output, or that the runtime gave no answer to.
        unanswered: Rows that the runtime gave no answer to.
        outputs: By name. A result has them with what was allowed.
        problems: What else went wrong, each with the first row it happened to; as many as `WORST`.
        worst: The worst rows, the worst first; as many as `WORST`.
    """

    rows: int = 0
    failed: int = 0
    unanswered: int = 0
    outputs: Mapping[str, OutputStatistics] = field(default_factory=dict, metadata={"published": False})
    problems: Mapping[str, int] = field(default_factory=dict)
    worst: tuple[WorstRow, ...] = ()

    def merge(self, other: Self) -> Self:
        """Returns the statistics of both, which must have no row in common."""
        names = sorted(self.outputs.keys() | other.outputs.keys())
        none = OutputStatistics()
        first = {
            message: min(found[message] for found in (self.problems, other.problems) if message in found)
            for message in self.problems.keys() | other.problems.keys()
        }
        earliest = sorted(first.items(), key=lambda item: (item[1], item[0]))[:WORST]
        return type(self)(
            rows=self.rows + other.rows,
            failed=self.failed + other.failed,
            unanswered=self.unanswered + other.unanswered,
            outputs={name: self.outputs.get(name, none).merge(other.outputs.get(name, none)) for name in names},
            problems=dict(earliest),
            worst=keep_worst([*self.worst, *other.worst], WORST),
        )

    def to_bytes(self) -> bytes:
        """Returns a zip file that `from_bytes` reads; equal statistics give equal bytes."""
        rows = [worst_to_dict(row) for row in self.worst]
        arrays = {f"worst/{i}/{name}": array for i, (_, found) in enumerate(rows) for name, array in found.items()}
        plain = {
            "rows": self.rows,
            "failed": self.failed,
            "unanswered": self.unanswered,
            "outputs": {name: found.to_dict() for name, found in self.outputs.items()},
            "problems": dict(self.problems),
            "worst": [row for row, _ in rows],
            "dtypes": {name: array.dtype.name for name, array in arrays.items()},
        }
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(_entry(_MEMBER), json.dumps(plain, sort_keys=True, separators=(",", ":")))
            for name in sorted(arrays):
                file.writestr(_entry(f"{name}.npy"), _npy(arrays[name]))
        return stream.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Returns what `to_bytes` was called on.

        Raises:
            ValueError: If the bytes are not whole.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as file:
                plain = json.loads(file.read(_MEMBER))
                arrays = {name: _array(file.read(f"{name}.npy"), dtype) for name, dtype in plain.pop("dtypes").items()}
        except Exception as error:  # zlib.error, NotImplementedError, and whatever else a damaged file raises
            raise ValueError(f"`content` must be whole statistics. Received: {error}.") from error
        worst = [
            worst_from_dict(row, _under(f"worst/{number}/", arrays)) for number, row in enumerate(plain.pop("worst"))
        ]
        outputs = {name: OutputStatistics.from_dict(found) for name, found in plain.pop("outputs").items()}
        return cls(**plain, outputs=outputs, worst=tuple(worst))


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _npy(array: Array) -> bytes:
    stream = io.BytesIO()
    if array.dtype.kind == "O":  # texts, as UTF-8 whatever they were
        array = np.array([_encoded(text) for text in array.flat], "S").reshape(array.shape)
    elif array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
    np.lib.format.write_array(stream, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
    return stream.getvalue()


def _encoded(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode()


def _array(content: bytes, dtype: str) -> Array:
    array: Array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    if dtype == "object":
        texts = np.empty(array.size, object)
        texts[:] = [text.decode() for text in array.ravel().tolist()]
        return texts.reshape(array.shape)
    return array.view(as_dtype(dtype)) if dtype == "bfloat16" else array


def _under(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
