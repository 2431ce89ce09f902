"""Inputs of one's own: one or several, mappings or files, and a sentence for each that cannot be read."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.cases import (
    Case,
    cast_case,
    cast_where_exact,
    parse_cases,
    read_case,
)

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _written(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    np.savez(path, x=X)
    return path


def test_one_mapping_or_one_path_is_one_case(tmp_path):
    path = _written(tmp_path / "case.npz")
    for given in ({"x": X}, path, str(path), [{"x": X}], [path]):
        (case,) = parse_cases(given, ["x"])
        np.testing.assert_array_equal(case.inputs["x"], X)


def test_files_with_equal_names_in_two_folders_are_two_cases_with_two_names(tmp_path):
    paths = [_written(tmp_path / folder / "x.npz") for folder in ("a", "b")]
    assert [case.name for case in parse_cases(paths, ["x"])] == ["x", "x_1"]


def test_inputs_and_the_outputs_expected_of_them_are_told_apart(tmp_path):
    np.savez(tmp_path / "case.npz", **{"inputs/x": X, "outputs/y": 2 * X})
    case, outputs = read_case(tmp_path / "case.npz")
    assert set(case.inputs) == {"x"}
    np.testing.assert_array_equal(outputs["y"], 2 * X)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _damage_file(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)


def _objects(path: Path) -> None:
    np.savez(path, x=np.array([{}], object))


def _not_an_array(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", b"no array")


BREAK = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no arrays"),
    "cut": _cut,
    "changed": _damage_file,
    "objects": _objects,
    "not an array": _not_an_array,
}


@pytest.mark.parametrize("name", BREAK)
def test_a_file_that_cannot_be_read_is_a_sentence_with_its_name(tmp_path, name):
    path = _written(tmp_path / "case.npz")
    BREAK[name](path)
    with pytest.raises(ValueError, match=r"case\.npz"):
        parse_cases(path, ["x"])


def test_a_missing_file_no_case_and_other_inputs_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
        parse_cases(tmp_path / "missing.npz", ["x"])
    with pytest.raises(ValueError, match="at least one case"):
        parse_cases([], ["x"])
    with pytest.raises(ValueError, match="an array for each of x, z"):
        parse_cases({"x": X}, ["x", "z"])


@pytest.mark.parametrize("given", [None, 3, [None], [{"x": np.ones(1)}, 3]])
def test_cases_that_are_neither_a_mapping_nor_a_path_are_refused_by_the_name_of_the_argument(given):
    with pytest.raises(TypeError, match=r"`inputs` must be mappings of names to arrays, or \.npz files\. Received: "):
        parse_cases(given, ["x"])


def test_numbers_of_numpys_default_types_are_given_in_those_of_the_model():
    inputs = [TensorInfo("ids", ("batch",), "int32"), TensorInfo("x", ("batch",), "float32")]
    case = cast_case(Case("own", {"ids": np.array([1, 2]), "x": np.array([0.1, np.nan])}, ""), inputs)
    assert {name: array.dtype.name for name, array in case.inputs.items()} == {"ids": "int32", "x": "float32"}
    with pytest.raises(ValueError, match=r"'ids' is int32\. Received: int64 values in 'own'"):
        cast_case(Case("own", {"ids": np.array([2**40]), "x": np.zeros(1)}, ""), inputs)


@pytest.mark.parametrize("dtype", ["complex64", "datetime64[s]", "S3", "U3"])
def test_values_of_another_kind_than_numbers_are_refused_by_the_name_of_the_input(dtype: str) -> None:
    with pytest.raises(ValueError, match=r"'x' is float32"):
        cast_case(Case("own", {"x": np.zeros(3, dtype)}, ""), [TensorInfo("x", ("batch",), "float32")])


def test_stored_numbers_are_cast_where_nothing_is_lost():
    arrays = {
        "a": np.array([0.5, np.inf, np.nan]),
        "b": np.array([0.1]),
        "c": np.array([3]),
        "d": np.array(["x"], object),
    }
    dtypes = {"a": np.float32, "b": np.float32, "c": np.int32, "d": np.float32}
    cast = cast_where_exact(arrays, {name: np.dtype(each) for name, each in dtypes.items()})
    assert [cast[name].dtype.name for name in "abcd"] == ["float32", "float64", "int32", "object"]


def test_a_file_with_two_arrays_of_one_input_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "case.npz", **{"x": np.zeros(2), "inputs/x": np.ones(2)})
    with pytest.raises(ValueError, match="'x' and 'inputs/x'"):
        read_case(tmp_path / "case.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_array_whose_header_claims_more_than_follows_is_refused_before_it_is_read(
    tmp_path: Path, save: object
) -> None:
    save(tmp_path / "sound.npz", x=X)
    with zipfile.ZipFile(tmp_path / "sound.npz") as sound, zipfile.ZipFile(tmp_path / "case.npz", "w") as file:
        file.writestr("x.npy", sound.read("x.npy").replace(b"(2, 3), }" + b" " * 15, b"(2199023255552, 3,), }  "[:24]))
    with pytest.raises(ValueError, match=r"x\.npy claims 24\.0 TiB"):
        read_case(tmp_path / "case.npz")


def test_an_array_that_unpacks_to_far_more_than_its_file_is_refused(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "case.npz", x=np.zeros(2**28, np.int8))
    with pytest.raises(ValueError, match=r"unpacks to 256\.0 MiB"):
        read_case(tmp_path / "case.npz")
