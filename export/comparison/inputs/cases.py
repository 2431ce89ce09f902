"""A case, which is one set of inputs, and the files with a user's own cases."""

import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.zip_files import check_entries
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.model.sizes.dimensions import Dimension
from keras_pe.export.model.watch.nested_arguments import unique
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays, as_dtype

INPUT, OUTPUT = "inputs/", "outputs/"
"""Prefixes of the names of arrays in an `.npz` file. The prefix of inputs is optional."""

GivenInputs = str | os.PathLike[str] | Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Case:
    """One set of inputs. Cases are equal only if identical.

    Attributes:
        name: Unique in a check.
        inputs: Every input by name.
        purpose: The kind of fault that the case can find, in words.
        sizes: The sizes of the inputs' dynamic dimensions, by name; empty if they were not drawn.
        repeats: The name of the case whose inputs it repeats.
    """

    name: str
    inputs: Mapping[str, Array]
    purpose: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    repeats: str | None = None


def read_cases(inputs: GivenInputs | Sequence[GivenInputs]) -> tuple[Case, ...]:
    """Returns a user's cases from mappings of names to arrays or paths of `.npz` files, one or several.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If no case is passed, or a file cannot be read.
        TypeError: If a case is neither a mapping nor a path.
    """
    is_one = isinstance(inputs, str | os.PathLike | Mapping) or not isinstance(inputs, Iterable)
    several: Sequence[GivenInputs] = [inputs] if is_one else list(inputs)  # type: ignore[list-item,arg-type]
    if not several:
        raise ArgValueError("inputs", "must have at least one case. Received: none.")
    cases = [_parse_case(number, each) for number, each in enumerate(several)]
    return tuple(replace(case, name=name) for case, name in zip(cases, unique(c.name for c in cases), strict=True))


def parse_cases(inputs: GivenInputs | Sequence[GivenInputs], names: Iterable[str]) -> tuple[Case, ...]:
    """Returns a user's cases for a model, as `read_cases`.

    Args:
        inputs: The user's cases.
        names: The inputs of the model.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If no case is passed, a file cannot be read, or the names of the inputs differ from the model's.
    """
    cases = read_cases(inputs)
    wanted = set(names)
    for case in cases:
        if set(case.inputs) != wanted:
            raise ArgValueError(
                "inputs",
                f"must have an array for each of {', '.join(sorted(wanted))}. "
                f"Received: {', '.join(sorted(case.inputs))} in {case.name!r}.",
            )
    return cases


def cast_case(case: Case, inputs: Iterable[TensorInfo]) -> Case:
    """Returns a case with the types of the inputs, since NumPy's default types differ. Floats are rounded.

    Raises:
        ValueError: If a type cannot represent the values.
    """
    wanted = {spec.name: as_dtype(spec.dtype) for spec in inputs}
    plain = {name: _convert_objects(array, wanted[name], name, case.name) for name, array in case.inputs.items()}
    arrays = cast_where_exact(plain, wanted)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and is_float(wanted[name]):
            arrays[name] = array.astype(wanted[name], copy=False)
        elif array.dtype != wanted[name] and (array.dtype.kind in "iubf" or wanted[name].kind in "iubf"):
            raise ArgValueError(
                "inputs",
                f"must fit their types: {name!r} is {wanted[name]}. "
                f"Received: {array.dtype} values in {case.name!r} that it cannot represent.",
            )
    return replace(case, inputs=arrays)


def check_sizes(case: Case, inputs: Iterable[TensorInfo], dimensions: Mapping[str, Dimension]) -> None:
    """Raises ValueError unless the arrays of a case fit the shapes of the inputs, and each other.

    A state of another size than the other inputs is an error of the caller. Keras' own message would name an operator.
    """
    known: dict[str, int] = {}
    for spec in inputs:
        found = case.inputs[spec.name].shape
        pairs = zip(spec.shape, found, strict=False)
        right = tuple(known.setdefault(size, own) if isinstance(size, str) else size for size, own in pairs)
        if len(found) != len(spec.shape) or found != right:
            shape = f"({', '.join(map(str, spec.shape))})"
            rule = f"must fit the shapes of the model and each other: {spec.name!r} is {shape}"
            raise ArgValueError("inputs", f"{rule}. Received: {found} in {case.name!r}.")
    for name, dimension in dimensions.items():
        parts = [known[each] for each in dimension.parts if each in known]
        if name in known and len(parts) == len(dimension.parts) > 0 and known[name] != sum(parts):
            rule = f"must fit each other: {name} is {' + '.join(dimension.parts)}"
            received = f"{known[name]} for {' + '.join(map(str, parts))} in {case.name!r}"
            raise ArgValueError("inputs", f"{rule}. Received: {received}.")


def _convert_objects(array: Array, dtype: np.dtype, name: str, case: str) -> Array:
    """Returns an array of Python objects as numbers, if an input takes numbers; any other array unchanged.

    Raises:
        ValueError: If the objects are not numbers.
    """
    if array.dtype.kind != "O" or dtype.kind in "OSU":
        return array
    try:
        numbers = np.array(array.tolist())
    except ValueError:  # the rows differ in length
        numbers = array
    if numbers.dtype.kind not in "iubf" or numbers.shape != array.shape:
        raise ArgValueError(
            "inputs",
            f"must fit their types: {name!r} is {dtype}. Received: an array of Python objects in {case!r} "
            "that are not all numbers of one kind.",
        )
    return numbers


def cast_where_exact(arrays: Mapping[str, Array], dtypes: Mapping[str, np.dtype]) -> Arrays:
    """Returns arrays by name, cast to other types if the types represent every value exactly, else unchanged."""
    cast = dict(arrays)
    for name, dtype in dtypes.items():
        array = cast.get(name)
        if array is None or array.dtype == dtype or array.dtype.kind not in "iubf" or dtype.kind == "O":
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            other = array.astype(dtype)
            back = other.astype(array.dtype)
        if ((back == array) | ((back != back) & (array != array))).all():
            cast[name] = other
    return cast


def read_case(path: str | os.PathLike[str]) -> tuple[Case, Arrays]:
    """Reads one case from an `.npz` file.

    The names of arrays are those of the inputs, or `inputs/NAME`; expected outputs are `outputs/NAME`.

    Returns:
        The case, and the expected outputs, empty without any.

    Raises:
        FileNotFoundError: If the file is missing.
        ValueError: If the file cannot be read, or has no input.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}.")
    arrays = read_arrays(path)
    outputs = {name.removeprefix(OUTPUT): array for name, array in arrays.items() if name.startswith(OUTPUT)}
    given = [name for name in arrays if not name.startswith(OUTPUT)]
    inputs = {name: arrays[member] for name, member in member_of_input(given, path).items()}
    if not inputs:
        raise ArgValueError("inputs", f"must be .npz files with an array for each input. Received: {path} without one.")
    return Case(path.stem, inputs, f"from {path}"), outputs


def read_arrays(path: Path) -> Arrays:
    """Returns the arrays of an `.npz` file.

    Raises:
        ValueError: If the file is not an `.npz` file, or is damaged.
    """
    try:
        with path.open("rb") as stream:
            if stream.read(6) == b"\x93NUMPY":
                raise ValueError("it holds one array without a name")
            with zipfile.ZipFile(stream) as entries:
                check_entries(entries)
            stream.seek(0)
            file = np.load(stream, allow_pickle=False)
            arrays = {name: file[name] for name in file.files}
        if others := [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]:
            raise ValueError(f"{others[0]!r} is not an array")
        return arrays
    except Exception as error:  # a damaged file may raise any error
        raise ValueError(
            f"{path} cannot be read as an .npz file of plain arrays: {error or 'it ends early'}."
        ) from error


def member_of_input(members: Iterable[str], path: Path) -> dict[str, str]:
    """Returns the member of an `.npz` file for each input.

    Raises:
        ValueError: If two members belong to one input.
    """
    found: dict[str, str] = {}
    for member in members:
        name = member.removeprefix(INPUT)
        if name in found:
            raise ValueError(
                f"An .npz file must have one array for each input. Received: {path} with {found[name]!r} and "
                f"{member!r}."
            )
        found[name] = member
    return found


def _parse_case(number: int, given: GivenInputs) -> Case:
    if isinstance(given, Mapping):
        return Case(
            f"given {number}", {name: np.asarray(array) for name, array in given.items()}, "passed by the caller"
        )
    if not isinstance(given, str | os.PathLike):
        raise ArgTypeError("inputs", f"must be mappings of names to arrays, or .npz files. Received: {given!r}.")
    return read_case(given)[0]
