"""What the inputs of a model are for: found by watching which layers they reach unchanged."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.messages import first_line
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.recording import LayerCall, record_calls
from keras_pe.export.model.watch.vocabulary import Vocabulary
from keras_pe.export.runtimes.runtime import Array, as_dtype

_REACH = 2**24  # positions beyond are refused by the encoding itself
_INTEGERS = ((-64, 64), *((0, 2**bits) for bits in range(7, 1, -1)))  # the least, and the first that is none


@dataclass(frozen=True)
class Role:
    """What an input means to the model, as far as it decides which values are fair.

    Attributes:
        role: "values", "ids" (rows of an embedding), "positions" or "start" (of a position encoding), "entries" (of a
            vocabulary).
        low: The least fair value, None where there is no bound.
        high: The least value above that is not fair, None where there is no bound.
        vocabulary: What it is looked up in.
    """

    role: str
    low: float | None = None
    high: float | None = None
    vocabulary: Vocabulary = field(default_factory=Vocabulary)


def find_roles(model: Any, signature: Signature) -> tuple[dict[str, Role], str | None]:
    """Returns the roles of the inputs that reach an embedding, a position encoding or a lookup, and fair integers.

    The model runs once, eagerly, on zeros and ones: a fair token id, position and start everywhere. An input is
    recognized where it arrives as the very tensor that was given, or else by values that no other input has. Integers
    of which nothing is known are given negative ones, and less and less until the model takes them: they may be places.

    Args:
        model: The model.
        signature: Its signature.

    Returns:
        The roles by name, and why there are no others than of lookups where the model did not run.
    """
    import keras

    roles = {name: Role("entries", vocabulary=each) for name, each in signature.vocabularies.items()}
    plain = signature.example()
    marked = [spec for spec in signature.inputs if spec.name not in roles and spec.dtype != "string"]
    marks = _marks(marked, plain, signature.values.ranges)
    tensors = {name: keras.ops.convert_to_tensor(array) for name, array in marks.items()}
    try:
        calls = record_calls(model, lambda: signature.call(model, plain | tensors))
    except Exception as error:  # whatever a layer raises at these values
        return roles, f"{type(error).__name__}: {first_line(error)}"
    for value, role in _arrivals(calls):
        name = _recognize(value, tensors)
        if name is not None:
            roles[name] = _tighter(roles.get(name), role)
    unknown = {name: mark for name, mark in marks.items() if name not in roles and mark.dtype.kind in "iu"}
    return roles | _fair_integers(unknown, lambda given: signature.call(model, plain | tensors | dict(given))), None


def _fair_integers(marks: Mapping[str, Array], run: Callable[[Mapping[str, Any]], Any]) -> dict[str, Role]:
    """Returns the roles of integers of which a model refuses some, with the widest range that it has taken.

    Args:
        marks: Zeros and ones for each, which it takes.
        run: Calls the model with others in their place.
    """
    import keras

    rng = np.random.default_rng(0)

    def is_taken(low: int, high: int, end: int) -> bool:
        given = {}
        for name, mark in marks.items():
            least = max(low, int(np.iinfo(mark.dtype).min))
            drawn = rng.integers(least, high, mark.shape).astype(mark.dtype)
            drawn.flat[:1] = max(least, end)  # a few that are drawn may miss it
            given[name] = keras.ops.convert_to_tensor(drawn)
        try:
            run(given)
        except Exception:  # whatever a layer raises at these values
            return False
        return True

    for low, high in _INTEGERS if marks else ():
        if is_taken(low, high, low) and is_taken(low, high, high - 1):
            return {} if low < 0 else {name: Role("values", low, high) for name in marks}
    return {name: Role("values", 0, 2) for name in marks}


def given_roles(ranges: Mapping[str, tuple[float, float]], found: Mapping[str, Role]) -> dict[str, Role]:
    """Returns the roles with the ranges that the user gave, a low end and the first value past the high end."""
    given = {name: Role(found.get(name, Role("values")).role, low, high) for name, (low, high) in ranges.items()}
    return {**found, **given}


def _marks(
    inputs: Iterable[TensorInfo], zeros: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, Array]:
    """Returns an array of zeros and ones for each input, different from each other where the shapes leave room.

    Of a range it is the least value and one that is larger by one, or by half of a range that is shorter.
    """
    rng = np.random.default_rng(0)
    marks: dict[str, Array] = {}
    for spec in inputs:
        shape = tuple(zeros[spec.name].shape)
        for _ in range(16):
            bits = rng.integers(0, 2, shape)
            if not any(mark.shape == shape and (mark == bits).all() for mark in marks.values()):
                break
        low, high = ranges.get(spec.name, (0, 2))
        marks[spec.name] = (low + bits * min(1, (high - low) / 2)).astype(as_dtype(spec.dtype))
    return marks


def _arrivals(calls: list[LayerCall]) -> Iterator[tuple[Any, Role]]:
    """Yields what reached embeddings and position encodings, and what it means to them."""
    import keras

    from keras_pe.layers.base import PositionLayer

    for call in calls:
        layer = call.layer
        if isinstance(layer, keras.layers.Embedding):
            yield call.arguments[0], Role("ids", 0, layer.input_dim)
        elif isinstance(layer, PositionLayer):
            bound = layer.max_length if isinstance(layer.max_length, int) else None
            low, high = (-_REACH, _REACH) if bound is None else (0, bound)
            named = dict(zip(("inputs", "positions", "start_index"), call.arguments, strict=False)) | call.keywords
            for argument, role in (("positions", "positions"), ("start_index", "start")):
                for value in keras.tree.flatten(named.get(argument)):
                    if keras.ops.is_tensor(value):
                        yield value, Role(role, low, high)


def _recognize(value: Any, tensors: Mapping[str, Any]) -> str | None:
    """Returns the name of the input that arrived; None where it cannot be told."""
    import keras

    same = [name for name, tensor in tensors.items() if value is tensor]
    if not same:
        array = keras.ops.convert_to_numpy(value).astype(np.float64)
        marks = {name: keras.ops.convert_to_numpy(tensor).astype(np.float64) for name, tensor in tensors.items()}
        same = [name for name, mark in marks.items() if mark.shape == array.shape and (mark == array).all()]
    return same[0] if len(same) == 1 else None


def _tighter(one: Role | None, other: Role) -> Role:
    """Returns the role that is fair for both layers an input reaches."""
    if one is None or one.role != other.role:
        return other if one is None or one.role == "values" else one
    low = max(r.low for r in (one, other) if r.low is not None)
    high = min(r.high for r in (one, other) if r.high is not None)
    return Role(one.role, low, high)
