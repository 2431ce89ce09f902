"""Valid input values of a model: fill values, ranges, examples and vocabularies, and their record in an artifact."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.export.artifacts.json_records import read_record
from keras_pe.export.errors import first_line
from keras_pe.export.model.watch.nested_arguments import FlatModel, StaticShape
from keras_pe.export.model.watch.symbolic_trace import layers_reached
from keras_pe.export.results import Array

Texts = npt.NDArray[np.object_]
Numbers = npt.NDArray[np.integer]

_STRANGE = ("", "a", "The cat sat.", "\u00fc")  # most vocabularies know none of them
_BETWEEN = (" ", ", ", "  ", "\t", "-", "! ")
_LENGTHS = range(4, 13)  # words of a sentence

Specs = Mapping[str, tuple[StaticShape, str]]
"""The shape and the dtype of each input, by name."""

_MOST_ENTRIES = 1000  # entries that are read from each layer
_MOST_TOLD = 2**20  # bytes of examples


@dataclass(frozen=True)
class Vocabulary:
    """The entries of the layers that look up an input.

    Attributes:
        entries: Words or whole numbers. If the vocabulary is closed, these are the entries that all the layers share.
        is_closed: Whether one of the layers refuses values that are not entries.
    """

    entries: tuple[str | int, ...] = ()
    is_closed: bool = False

    @property
    def words(self) -> list[str]:
        """The entries that are words."""
        return [entry for entry in self.entries if isinstance(entry, str)]

    @property
    def numbers(self) -> list[int]:
        """The entries that are whole numbers."""
        return [entry for entry in self.entries if isinstance(entry, int)]


def find_vocabularies(model: FlatModel) -> tuple[dict[str, Vocabulary], list[str]]:
    """Returns the vocabularies of inputs by name, and a sentence if the vocabularies could not be inferred.

    If a text input does not reach a lookup layer by a traced path, its vocabulary has the words of all layers.
    """
    import keras

    kinds = (keras.layers.StringLookup, keras.layers.IntegerLookup, keras.layers.TextVectorization)
    layers = [layer for layer in model.layers if isinstance(layer, kinds)]
    if not layers or keras.backend.backend() != "tensorflow":
        return {}, []
    remarks: list[str] = []
    try:
        reached = layers_reached(model, kinds)
    except Exception as error:  # a layer may raise anything where a size is not known
        reached = {}
        remarks = [f"The vocabularies of the inputs are not known: {first_line(error)}."]
    vocabularies = {}
    for name, dtype in zip(model.names, model.dtypes, strict=True):
        if own := reached.get(name):
            vocabularies[name] = _common(own, is_closed=any(map(_refuses_others, own)))
        elif dtype == "string":
            vocabularies[name] = _common(layers, is_closed=False)
    return vocabularies, remarks


def _common(layers: Iterable[Any], *, is_closed: bool) -> Vocabulary:
    """Returns the entries of layers. A closed vocabulary has shared entries, an open one the entries of any layer."""
    entries = [
        dict.fromkeys(
            str(entry) if isinstance(entry, str) else int(entry)
            for entry in layer.get_vocabulary(include_special_tokens=False)[:_MOST_ENTRIES]
        )
        for layer in layers
        if not is_closed or _refuses_others(layer)
    ]
    first, *others = entries
    if is_closed:
        shared = tuple(entry for entry in first if all(entry in other for other in others))
        return Vocabulary(shared, is_closed=bool(shared))
    return Vocabulary(tuple({entry: None for each in entries for entry in each}))


def _refuses_others(layer: Any) -> bool:
    return getattr(layer, "num_oov_indices", 1) == 0


def draw_texts(vocabulary: Vocabulary, shape: tuple[int, ...], rng: np.random.Generator) -> Texts:
    """Returns words of a closed vocabulary. For an open one, unknown words and sentences occur as well."""
    kinds = (_strange, _word, _sentence, _sentence) if not vocabulary.is_closed else (_word,)
    texts = np.empty(shape, object)
    for place in np.ndindex(shape):
        texts[place] = kinds[rng.integers(len(kinds))](vocabulary.words, rng)
    return texts


def draw_numbers(vocabulary: Vocabulary, others: Numbers, rng: np.random.Generator) -> Numbers:
    """Returns entries in place of all numbers if the vocabulary is closed, or else in place of about half of them."""
    if not vocabulary.numbers:
        return others
    entries = rng.choice(vocabulary.numbers, others.shape)
    return entries if vocabulary.is_closed else np.where(rng.random(others.shape) < 0.5, entries, others)


def _strange(words: Sequence[str], rng: np.random.Generator) -> str:
    return _STRANGE[rng.integers(len(_STRANGE))]


def _word(words: Sequence[str], rng: np.random.Generator) -> str:
    return words[int(rng.integers(len(words)))] if words else _strange(words, rng)


def _sentence(words: Sequence[str], rng: np.random.Generator) -> str:
    drawn = (_word([*words, *_STRANGE], rng) for _ in range(rng.choice(_LENGTHS)))
    sentence = "".join(word + str(rng.choice(_BETWEEN)) for word in drawn)
    return sentence.title() if rng.integers(2) else sentence


class FillingKind(StrEnum):
    """The kinds of values that a model may accept; the most common kind comes first."""

    ZEROS = "zeros"
    ONES = "ones"
    VARIED = "numbers of which no two neighbors are alike"
    IDENTITY = "identity matrices"
    SIZES = "sizes"


@dataclass(frozen=True)
class Filling:
    """The values of an input without an example.

    Attributes:
        kind: The kind of the values.
        source: The input and the axis whose size is the value of integers, such as lengths or counts. For sizes only.
    """

    kind: FillingKind = FillingKind.ZEROS
    source: tuple[str, int] = ("", 0)


@dataclass(frozen=True)
class KnownValues:
    """The known constraints on the values of a model's inputs.

    Attributes:
        vocabularies: The vocabulary of each input that a layer looks up, by name.
        ranges: The caller's range of each input by name: the least valid value, and the first invalid value above.
        examples: The caller's examples, each with an array for every name.
        filling: The values of inputs without an example. The default is zeros.
    """

    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    examples: tuple[Mapping[str, Array], ...] = ()
    filling: Filling = field(default_factory=Filling)

    @property
    def published(self) -> "KnownValues":
        """The values that an artifact records for later checks: the ranges, and the examples unless they are large."""
        nbytes = sum(np.asarray(array).nbytes for example in self.examples for array in example.values())
        return KnownValues(ranges=self.ranges, examples=self.examples if nbytes <= _MOST_TOLD else ())

    def plain_tensors(self, specs: Specs, words: int = 0) -> dict[str, Any]:
        """Returns valid tensors of the backend by name, as far as the valid values are known.

        The example with these shapes has priority, then the first example, cut or repeated. An input with a closed
        vocabulary contains the first entry. Other strings are texts of `words` words.
        """
        if self.examples:
            shapes = {name: shape for name, (shape, _) in specs.items()}
            fitting = (each for each in self.examples if {name: np.shape(each[name]) for name in shapes} == shapes)
            example = next(fitting, self.examples[0])
            return {name: _tensor(_fit_to_shape(example[name], shape), dtype) for name, (shape, dtype) in specs.items()}
        return {name: self._fill(name, specs, words) for name in specs}

    def varied_tensors(self, specs: Specs, words: int = 0) -> dict[str, Any]:
        """Returns tensors of the backend by name, with floats of both signs, and with zeros and ones of other types.

        An input with a closed vocabulary contains the entries in turn. Other strings are texts, see `plain_tensors`.
        """
        return {name: self._fill(name, specs, words, is_signed=True) for name in specs}

    def fillings(self, specs: Mapping[str, tuple[Sequence[Any], str]]) -> Iterator[Filling]:
        """Yields the fillings to try, the most common first; only the default filling if there are examples."""
        yield Filling()
        if not self.examples:
            yield from (Filling(kind) for kind in (FillingKind.ONES, FillingKind.VARIED, FillingKind.IDENTITY))
            if any(is_integer(dtype) for _, dtype in specs.values()):
                for name, (shape, _) in specs.items():
                    yield from (Filling(FillingKind.SIZES, (name, axis)) for axis in range(1, len(shape)))

    def _fill(self, name: str, specs: Specs, words: int, *, is_signed: bool = False) -> Any:
        """Returns values of the filling, or numbers of both signs of which no two neighbors are alike."""
        (shape, dtype), filling, vocabulary = specs[name], self.filling, self.vocabularies.get(name)
        if vocabulary and vocabulary.is_closed:
            entries = vocabulary.entries if is_signed else vocabulary.entries[:1]
            return _tensor(np.resize(np.array(entries, object if dtype == "string" else dtype), shape), dtype)
        if dtype == "string":
            return _tensor(np.full(shape, " ".join("a" * words), object), dtype)
        numbers = np.arange(math.prod(shape)).reshape(shape)
        if is_signed or filling.kind is FillingKind.VARIED:
            low, high = self.ranges.get(name, (-1.0 if is_signed else 0.1, 1.0) if "float" in dtype else (0, 2))
            if "float" in dtype:
                return _tensor(low + (high - low) * (1 + np.sin(1 + numbers)) / 2, dtype)
            return _tensor(int(low) + numbers % max(1, min(2, int(high - low))), dtype)
        values: Array = np.zeros(shape)
        if filling.kind is FillingKind.ONES:
            values = np.ones(shape)
        elif filling.kind is FillingKind.SIZES and is_integer(dtype):
            values = np.full(shape, specs[filling.source[0]][0][filling.source[1]])
        elif filling.kind is FillingKind.IDENTITY:
            is_matrix = "float" in dtype and len(shape) > 1
            rows, columns = shape[-2:] if is_matrix else (1, math.prod(shape[-1:]))
            values = np.broadcast_to(np.eye(rows, columns), shape) if is_matrix else numbers % max(1, columns)
        low, high = self.ranges.get(name, (-math.inf, math.inf))
        is_fair = ((values >= low) & (values < high)).all()
        return _tensor(values if is_fair else np.full(shape, low), dtype)


def _fit_to_shape(array: Array, shape: StaticShape) -> Array:
    """Returns an array cut, or repeated from its start, along each axis."""
    for axis, size in enumerate(shape):
        if array.shape[axis] != size and array.shape[axis]:
            array = np.take(array, np.arange(size) % array.shape[axis], axis)
    return array


def is_integer(dtype: str) -> bool:
    """Whether NumPy's name of a dtype is that of an integer, signed or not."""
    return dtype.removeprefix("u").startswith("int")


def _tensor(values: Any, dtype: str) -> Any:
    import keras

    if dtype == "string":
        return keras.ops.convert_to_tensor(values) if keras.backend.backend() == "tensorflow" else values
    return keras.ops.convert_to_tensor(values, dtype)


def values_to_json(values: KnownValues) -> str:
    """Returns the ranges and the examples as a JSON text."""
    examples = [{name: _written(np.asarray(array)) for name, array in each.items()} for each in values.examples]
    return json.dumps({"ranges": {name: list(ends) for name, ends in values.ranges.items()}, "examples": examples})


def values_from_json(text: str) -> KnownValues:
    """Returns the values that `values_to_json` wrote.

    Raises:
        ValueError: If the text is something else.
    """
    return read_record(text, _values, "values")


def _values(content: Any) -> KnownValues:
    ranges = {str(name): (float(low), float(high)) for name, (low, high) in content["ranges"].items()}
    examples = tuple({name: _read(one) for name, one in each.items()} for each in content["examples"])
    return KnownValues(ranges=ranges, examples=examples)


def _written(array: Array) -> dict[str, Any]:
    dtype = "string" if array.dtype.kind in "OUS" else array.dtype.name
    return {"dtype": dtype, "shape": array.shape, "values": array.reshape(-1).tolist()}


def _read(written: dict[str, Any]) -> Array:
    dtype = written["dtype"]
    return np.array(written["values"], object if dtype == "string" else dtype).reshape(written["shape"])
