"""An archive gives back what was written, and the same bytes for the same content."""

import io
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from keras_pe.export.parity.npz_archive import read_archive, write_archive

CONTENT = {
    "rows": [{"x": np.arange(3, dtype=np.int8), "half": np.array([0.5], ml_dtypes.bfloat16)}, {}],
    "texts": np.array(["a", "\u5c42"], object),
    "bytes": np.array([b"\xff"], object),
    "mixed": np.array(["a", b"\xff"], object),
    "odd": {"array": np.array(1.5), "dtype": np.array(True), "note": "plain", "none": None},
}


def test_arrays_come_back_in_their_place_with_their_type() -> None:
    stream = io.BytesIO()
    write_archive(stream, CONTENT)
    found = read_archive(stream)
    assert found["rows"][0]["x"].dtype == "int8"
    assert found["rows"][0]["half"].dtype == ml_dtypes.bfloat16
    assert found["rows"][0]["half"].tolist() == [0.5]
    assert found["rows"][1] == {}
    assert found["texts"].tolist() == ["a", "\u5c42"]
    assert found["bytes"].tolist() == [b"\xff"]
    assert found["mixed"].tolist() == ["a", "\ufffd"]
    assert (found["odd"]["array"].item(), found["odd"]["dtype"].item()) == (1.5, True)
    assert (found["odd"]["note"], found["odd"]["none"]) == ("plain", None)


def test_cases_are_read_in_the_order_of_writing() -> None:
    """Order distinguishes outputs under other names."""
    for content in (CONTENT, dict(reversed(CONTENT.items()))):
        file = io.BytesIO()
        write_archive(file, content)
        assert list(read_archive(file)) == list(content)


def test_numpy_reads_the_arrays_and_half_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write_archive(path, CONTENT)
    assert np.load(path)["rows/0/x"].tolist() == [0, 1, 2]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="BadZipFile"):
        read_archive(path)


def test_a_name_may_have_any_character() -> None:
    """A zip file cuts a name at NUL and lacks lone surrogates, and a slash joins names."""
    content = {name: np.array(number) for number, name in enumerate(["a\0b", "a\\x00b", "a\0c", "\ud800", "é/è", ".."])}
    content |= {"é": {"è": np.array(-1)}}
    stream = io.BytesIO()
    write_archive(stream, content)
    assert read_archive(stream) == content


def test_texts_keep_the_nuls_at_their_end() -> None:
    stream = io.BytesIO()
    texts = np.array([["x\0", "y"], ["\0\0", "a\0b"]], object)
    write_archive(stream, {"texts": texts, "bytes": np.array([b"q\0", b"\0", b""], object)})
    found = read_archive(stream)
    assert found["texts"].tolist() == texts.tolist()
    assert found["bytes"].tolist() == [b"q\0", b"\0", b""]
