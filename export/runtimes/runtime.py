"""The interface of a runtime: it loads an artifact, takes named arrays and returns named arrays."""

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.dependencies import keras_backend

Array = npt.NDArray[Any]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class RuntimeName:
    """A name such as "onnxruntime[all]", "onnxruntime[basic]@/path/to/python", or the address of a served model.

    Attributes:
        family: "onnxruntime"; an address as a whole.
        variant: Text in brackets: "all".
        place: Another installation: "/path/to/python".
    """

    family: str
    variant: str = ""
    place: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the name that a user writes, or a report has."""
        if cls(text).is_address:
            return cls(text)
        name, _, place = text.partition("@")
        family, _, variant = name.partition("[")
        return cls(family, variant.removesuffix("]"), place)

    def __str__(self) -> str:
        variant = f"[{self.variant}]" if self.variant else ""
        return f"{self.family}{variant}" + (f"@{self.place}" if self.place else "")

    @property
    def is_address(self) -> bool:
        """Whether it is where a server has a model."""
        return self.family.startswith(("http://", "https://"))

    @property
    def any_variant(self) -> Self:
        """The name that all variants of this runtime, in its place, have in common."""
        return replace(self, variant="")


@dataclass(frozen=True)
class Version:
    """Version of a runtime, such as "onnxruntime 1.31.1" or "onnxruntime-web[wasm] 1.30.0 in Node 20.19.2".

    Attributes:
        package: With the variant, if there is one.
        release: Its version.
        remark: Further text, such as the host.
    """

    package: str
    release: str = ""
    remark: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the version that a runtime tells."""
        package, _, rest = text.partition(" ")
        release, _, remark = rest.partition(" ")
        return cls(package, release, remark)

    @property
    def package_release(self) -> "Version":
        """The package without a variant, and its release: what two runtimes have in common wherever they run."""
        return Version(RuntimeName.parse(self.package).family, self.release)

    @property
    def detail(self) -> str:
        """The release and what follows; the package where it tells no more."""
        return f"{self.release} {self.remark}".strip() or self.package

    def __str__(self) -> str:
        return f"{self.package} {self.release} {self.remark}".strip()


class Runtime(Protocol):
    """One loaded artifact: what to write to check a runtime that this package does not know.

    The class is called with the artifact's path, a string, and the options of its `RuntimeSpec`. It is imported and run
    in a child process, where it may raise, hang or crash. Whatever it raises is taken as its answer.

    Attributes:
        inputs: Its inputs; a dynamic dimension is a name.
        version: The runtime's package and version, with a space between them.

    It may have one attribute more, `providers`: how many nodes of the graph each of its execution providers really got.
    """

    inputs: tuple[TensorInfo, ...]
    version: str

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns every output by name.

        Args:
            inputs: An array for each of `inputs`, by name.
        """
        ...


class InspectableRuntime(Runtime, Protocol):
    """A runtime that also returns inner tensors, so that a check can name the layer at fault. Each method is
    optional."""

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        """Returns every tensor that can be read, the outputs among them, in the order of computation.

        `run` is not changed by it.

        Args:
            inputs: As in `run`.
            replaced: Arrays that replace tensors, by the names that this method returns. Later tensors are computed
                from the arrays.
        """
        ...

    def weights(self) -> Mapping[str, Array]:
        """Returns the constants that are stored in the artifact, by name; the mapping may read each when asked.

        The mapping may also have the real values of a constant of integers, under `NUMBERS` and its name. It may have
        the steps between two such values under `STEPS` and its name, in the same shape. Booleans and integers of 32 or
        64 bits, such as the entries of a mask or of a table, are under `INTEGERS` and their name.
        """
        ...

    def conditions(self, inputs: Mapping[str, Array]) -> Mapping[str, bool]:
        """Returns what each condition of the graph is, by its name: which branch is taken.

        Args:
            inputs: As in `run`.
        """
        ...

    def float_dtypes(self) -> tuple[str, ...]:
        """Returns the floating-point types that the artifact computes in, by NumPy's names."""
        ...

    def metadata(self) -> dict[str, str]:
        """Returns the texts that are stored in the artifact."""
        ...


@dataclass(frozen=True)
class RuntimeSpec:
    """How to get a runtime, without importing it.

    Attributes:
        name: Unique; a variant's name stands in brackets, such as "onnxruntime[all]".
        format: Accepted format: "onnx", "tf_saved_model", "litert", "keras" for the model itself, "served" on a server.
        factory: Its class, as "package.module:Class".
        package: The package it needs, by import name.
        install: The command that installs it.
        options: Keyword arguments of the class.
        by_default: Whether a check runs it without being asked for it by name.
        find_missing: For requirements other than Python packages: returns the missing one and its installation, or
            None.
        backend: Keras' backend, for what runs on one alone.
    """

    name: str
    format: str
    factory: str
    package: str
    install: str
    options: Mapping[str, Any] = field(default_factory=dict)
    by_default: bool = True
    find_missing: Callable[[], str | None] | None = None
    backend: str = ""

    @property
    def family(self) -> str:
        """The name without the variant."""
        return RuntimeName.parse(self.name).family

    @property
    def suits_backend(self) -> bool:
        """Whether it runs on the backend that Keras has in this process."""
        return self.backend in ("", keras_backend())

    @property
    def missing(self) -> str | None:
        """The missing package and its installation, or None if the runtime is installed. The runtime is not
        imported."""
        if not self.suits_backend:
            return f"Keras on another backend than {keras_backend()}. Set KERAS_BACKEND={self.backend}"
        if self.find_missing is not None:
            return self.find_missing()
        if importlib.util.find_spec(self.package) is not None:
            return None
        return f"the package {self.package!r}. Install it with: {self.install}"

    @property
    def installed(self) -> bool:
        """Whether nothing is missing."""
        return self.missing is None


def tensor_info(name: str, shape: Iterable[Any], dtype: str) -> TensorInfo:
    """Returns what a runtime says of an input.

    Args:
        name: The input's name.
        shape: Its dimensions. A dynamic one is a name, or None, -1 or an empty text: then it gets a name of its own.
        dtype: By NumPy's name.
    """
    dims = [(dim or -1) if isinstance(dim, str) else -1 if dim is None else int(dim) for dim in shape]
    named = (dim if isinstance(dim, str) or dim >= 0 else f"{name}_{i}" for i, dim in enumerate(dims))
    return TensorInfo(name, tuple(named), dtype)


def as_dtype(name: str) -> np.dtype[Any]:
    """Returns the NumPy type of a name, bfloat16 among them."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return np.dtype(object if name == "string" else name)


def plain(array: Array) -> Array:
    """Returns an array as it is, or texts as Python's: TensorFlow has them as bytes."""
    return as_texts(array) if array.dtype.kind in "OSU" else array


def as_texts(values: Array) -> Array:
    """Returns texts as Python's, bytes decoded as UTF-8."""
    decoded = [text.decode(errors="replace") if isinstance(text, bytes) else text for text in values.ravel().tolist()]
    texts = np.empty(len(decoded), object)
    texts[:] = decoded
    return texts.reshape(values.shape)


NUMBERS, STEPS, INTEGERS = "numbers of ", "steps of ", "integers of "
"""The beginnings of names in a runtime's weights: of dequantized constants, of their steps, and of integers."""


class LazyArrays(Mapping[str, Array]):
    """Arrays by name, each read on every access, and not kept."""

    def __init__(
        self,
        names: Iterable[str],
        read: Callable[[str], Array],
        read_pieces: Callable[[str], Iterator[Array]] | None = None,
    ) -> None:
        """Knows the names, and reads nothing yet.

        Args:
            names: In the order in which they are to come.
            read: Returns the array of a name.
            read_pieces: Returns the rows of an array in their order, a few at a time; by default all at once.
        """
        self._names = dict.fromkeys(names)
        self._read, self._read_pieces = read, read_pieces

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> "LazyArrays":
        """Returns arrays as lazy ones, which they may be already."""
        return arrays if isinstance(arrays, cls) else cls(arrays, arrays.__getitem__)

    def only(self, names: Iterable[str]) -> "LazyArrays":
        """Returns those of some names."""
        return LazyArrays(names, self._read, self._read_pieces)

    def pieces(self, name: str) -> Iterator[Array]:
        """Yields the rows of an array in their order, a few at a time; a number as it is."""
        if self._read_pieces is None:
            yield self[name]
        else:
            yield from self._read_pieces(name)

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names
