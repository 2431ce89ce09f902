"""What the inputs of a model are for: found by watching which layers they reach unchanged."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.errors import first_line
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.known_values import Vocabulary
from keras_pe.export.model.watch.recording import LayerCall, record_calls
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
        below: The dynamic dimension whose size is that value instead, as of an index into another input.
    """

    role: str
    low: float | None = None
    high: float | None = None
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    below: str | None = None


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

    def is_taken(given: Mapping[str, Array], sizes: Mapping[str, int] | None = None) -> bool:
        others = signature.example(sizes) if sizes else plain | tensors
        arrays = {name: keras.ops.convert_to_tensor(array) for name, array in given.items()}
        try:
            signature.call(model, others | arrays)
        except Exception:  # whatever a layer raises at these values
            return False
        return True

    return roles | _fair_integers(unknown, signature, is_taken), None


def _fair_integers(marks: Mapping[str, Array], signature: Signature, is_taken: Callable[..., bool]) -> dict[str, Role]:
    """Returns the roles of integers of which a model refuses some.

    Args:
        marks: Zeros and ones for each, which it takes.
        signature: Of the model.
        is_taken: Whether it runs with arrays in their place, and with others of certain sizes.
    """
    widest = _widest(marks, is_taken) if marks else None
    if widest is None:
        return {}
    found = {}
    for name, mark in marks.items():
        if (own := _widest({name: mark}, is_taken)) is not None:
            below = _bounding_dimension(name, signature, is_taken)
            found[name] = own if below is None else Role("values", 0, below=below)
    # What is fair for each alone need not be fair for all.
    rng = np.random.default_rng(0)
    together = {
        name: _between(0, int(found[name].high or 1) if name in found else _INTEGERS[0][1], mark, rng)
        for name, mark in marks.items()
    }
    return found if is_taken(together) else dict.fromkeys(marks, widest)


def _widest(marks: Mapping[str, Array], is_taken: Callable[..., bool]) -> Role | None:
    """Returns the widest range of several integers that the model has taken, None where it is free."""
    rng = np.random.default_rng(0)
    for low, high in _INTEGERS:
        # A few that are drawn may miss an end.
        ends = ({name: _between(low, high, mark, rng, end) for name, mark in marks.items()} for end in (low, high - 1))
        if all(is_taken(given) for given in ends):
            return None if low < 0 else Role("values", low, high)
    return Role("values", 0, 2)


def _between(low: int, high: int, mark: Array, rng: np.random.Generator, first: int | None = None) -> Array:
    """Returns integers from `low` and below `high` that look like `mark`, with `first` among them."""
    least = max(low, int(np.iinfo(mark.dtype).min))
    drawn: Array = rng.integers(least, high, mark.shape).astype(mark.dtype)
    if first is not None:
        drawn.flat[:1] = max(least, first)
    return drawn


def _bounding_dimension(name: str, signature: Signature, is_taken: Callable[..., bool]) -> str | None:
    """Returns the dimension whose last index is the last value that the model takes, whatever its size is."""
    import keras

    def is_bound(dimension: str, sizes: Mapping[str, int]) -> bool:
        like = keras.ops.convert_to_numpy(signature.example(sizes)[name])
        last, beyond = ({name: np.full_like(like, end)} for end in (sizes[dimension] - 1, sizes[dimension]))
        return is_taken(last, sizes) and not is_taken(beyond, sizes)

    several = (signature.sizes, signature.other_sizes())
    return next((each for each in signature.sizes if all(is_bound(each, sizes) for sizes in several)), None)


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
