"""Infers the roles of a model's inputs from the layers that receive them unchanged."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.borders import Borders
from keras_pe.export.comparison.inputs.decision_points import find_borders, wide_integers
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.errors import first_line
from keras_pe.export.model.rebuild import half_dtypes
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import Kind
from keras_pe.export.model.watch.decision_boundaries import Decisions
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.known_values import is_integer
from keras_pe.export.model.watch.recording import LayerCall, record_calls
from keras_pe.export.runtimes.runtime import Array, as_dtype

_REACH = 2**24  # the encoding itself refuses larger positions
_TURNS = 6  # largest number of sets of marks that match inputs with arrivals
_FEWEST_TURNS = 4
_MOST_MARK = 100
_AT_ONCE = 2**16  # values of an input in one call, in as many rows as they make
_INTEGERS = ((-64, 64), *((0, 2**bits) for bits in range(7, 1, -1)))  # ranges to try: the least value, and the end


def find_roles(
    model: Any, signature: Signature, decisions: Decisions | None = None
) -> tuple[dict[str, Role], str | None]:
    """Returns the roles of inputs that reach an embedding, a position encoding or a lookup, and valid integers.

    The model runs eagerly on zeros and ones, which are valid token ids, positions and starts everywhere. An input is
    recognized if a layer receives the same tensor, or else by its values in several runs with independent marks. For
    other integers the function tries negative values, and then smaller and smaller ranges, until the model accepts
    them. Such integers may be indices.

    Args:
        model: The model.
        signature: The signature of the model.
        decisions: The decisions of the model; None if unknown.

    Returns:
        The roles by name, and the error if the model did not run, in which case only the roles of lookups are known.
    """
    import keras

    roles = {name: Role("entries", vocabulary=each) for name, each in signature.vocabularies.items()}
    plain = signature.example()
    marked = [spec for spec in signature.inputs if spec.name not in roles and spec.dtype != "string"]
    marks, turned = _marks(marked, plain, signature.values.ranges)
    tensors = {name: keras.ops.convert_to_tensor(array) for name, array in marks.items()}

    def arrivals(given: Mapping[str, Any]) -> list[tuple[Any, Role]]:
        return list(_arrivals(record_calls(model, lambda: signature.call(model, plain | dict(given)))))

    try:
        arrived = arrivals(tensors)
    except Exception as error:  # a layer may raise any error on these values
        return roles, f"{type(error).__name__}: {first_line(error)}"
    for name, role in _recognize(arrived, (marks, turned), tensors, arrivals):
        roles[name] = role.tighten(roles.get(name))
    unknown = {name: mark for name, mark in marks.items() if name not in roles and mark.dtype.kind in "iu"}

    def is_taken(given: Mapping[str, Array], sizes: Mapping[str, int] | None = None) -> bool:
        others = signature.example(sizes) if sizes else plain | tensors
        arrays = {name: keras.ops.convert_to_tensor(array) for name, array in given.items()}
        try:
            signature.call(model, others | arrays)
        except Exception:  # a layer may raise any error on these values
            return False
        return True

    roles |= _fair_integers(unknown, signature, is_taken)
    if decisions is not None:
        roles |= _decision_roles(model, signature, decisions, roles, is_taken)
    return roles, None


def _decision_roles(
    model: Any,
    signature: Signature,
    decisions: Decisions,
    roles: Mapping[str, Role],
    is_taken: Callable[..., bool],
) -> dict[str, Role]:
    """Returns the roles of inputs that affect a decision of the model, and of integers without a limit.

    Table rows and positions are excluded, since they are drawn separately.
    """
    found = {}
    is_short = bool(half_dtypes(all_layers(model)))
    for spec in signature.inputs:
        role = roles.get(spec.name, Role("values"))
        if role.role not in ("values", "entries") or spec.dtype in ("bool", "string") or role.below is not None:
            continue
        borders = Borders()
        if decisions.is_any:
            # A layer may raise any error on invalid values, such as indices beyond a table.
            with contextlib.suppress(Exception):
                borders = find_borders(spec.name, decisions, signature, is_short=is_short)
        ends = signature.values.ranges.get(spec.name, (role.low, role.high))
        borders = borders.within(*ends)
        if not _are_taken(spec, borders, signature, is_taken):
            borders = replace(borders, beside=(), exact=())
        is_free = is_integer(spec.dtype) and ends == (None, None) and not role.vocabulary.is_closed
        is_wide = is_free and spec.name not in decisions.sized
        is_wide = is_wide and _are_taken(spec, Borders(wide_integers(spec.dtype)), signature, is_taken)
        if borders != Borders() or is_wide:
            found[spec.name] = replace(role, borders=borders, is_wide=is_wide)
    return found


def _are_taken(spec: TensorInfo, borders: Borders, signature: Signature, is_taken: Callable[..., bool]) -> bool:
    """Whether the model takes all values of borders in an input, in one call if the batch may hold them."""
    sizes, shape = dict(signature.sizes), np.shape(signature.example()[spec.name])
    own = signature.dimensions.get(str(next(iter(spec.shape), "")))
    if own is not None and own.kind is Kind.BATCH:
        needed = 2 * max(len(borders.beside), len(borders.exact))
        batch = own.sizes.near(max(shape[0], min(needed, _AT_ONCE // max(1, int(np.prod(shape[1:]))))))
        sizes, shape = {**sizes, own.name: batch}, (batch, *shape[1:])
    like = np.empty(shape, as_dtype(spec.dtype))
    return all(is_taken({spec.name: each}, sizes) for each in borders.fill_arrays(like))


def _fair_integers(marks: Mapping[str, Array], signature: Signature, is_taken: Callable[..., bool]) -> dict[str, Role]:
    """Returns the roles of integers if the model refuses some values.

    Args:
        marks: Zeros and ones for each input, which the model takes.
        signature: The signature of the model.
        is_taken: Whether the model runs with some arrays instead, at the sizes of the example or at other sizes.
    """
    widest = _widest(marks, is_taken) if marks else None
    if widest is None:
        return {}
    found = {}
    for name, mark in marks.items():
        if (own := _widest({name: mark}, is_taken)) is not None:
            below = _bounding_dimension(name, signature, is_taken)
            found[name] = own if below is None else Role("values", 0, below=below)
    # Ranges that are valid for each input alone need not be valid together.
    rng = np.random.default_rng(0)
    together = {
        name: _between(0, int(found[name].high or 1) if name in found else _INTEGERS[0][1], mark, rng)
        for name, mark in marks.items()
    }
    return found if is_taken(together) else dict.fromkeys(marks, widest)


def _widest(marks: Mapping[str, Array], is_taken: Callable[..., bool]) -> Role | None:
    """Returns the widest range of several integer inputs that the model takes; None if it is not limited."""
    rng = np.random.default_rng(0)
    for low, high in _INTEGERS:
        # Both ends are tested, since a few random values may miss an end.
        ends = ({name: _between(low, high, mark, rng, end) for name, mark in marks.items()} for end in (low, high - 1))
        if all(is_taken(given) for given in ends):
            return None if low < 0 else Role("values", low, high)
    return Role("values", 0, 2)


def _between(low: int, high: int, mark: Array, rng: np.random.Generator, first: int | None = None) -> Array:
    """Returns integers from `low` to below `high` with the shape of `mark`, and with `first` among them."""
    least = max(low, int(np.iinfo(mark.dtype).min))
    drawn: Array = rng.integers(least, high, mark.shape).astype(mark.dtype)
    if first is not None:
        drawn.flat[:1] = max(least, first)
    return drawn


def _bounding_dimension(name: str, signature: Signature, is_taken: Callable[..., bool]) -> str | None:
    """Returns the dimension whose last index is the last value that the model takes, for all sizes."""
    import keras

    def is_bound(dimension: str, sizes: Mapping[str, int]) -> bool:
        like = keras.ops.convert_to_numpy(signature.example(sizes)[name])
        last, beyond = ({name: np.full_like(like, end)} for end in (sizes[dimension] - 1, sizes[dimension]))
        return is_taken(last, sizes) and not is_taken(beyond, sizes)

    several = (signature.sizes, signature.other_sizes())
    return next((each for each in signature.sizes if all(is_bound(each, sizes) for sizes in several)), None)


def _marks(
    inputs: Iterable[TensorInfo], zeros: Mapping[str, Any], ranges: Mapping[str, tuple[float, float]]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Returns an array of zeros and ones for each input, and arrays with zeros and ones exchanged.

    The arrays differ from each other if the shapes allow it. For an input with a range, 0 becomes the least value. 1
    becomes a value larger by 1, or by half of a range shorter than that.
    """
    rng = np.random.default_rng(0)
    drawn: dict[str, Array] = {}
    marks: tuple[dict[str, Array], dict[str, Array]] = ({}, {})
    for spec in inputs:
        shape = tuple(zeros[spec.name].shape)
        for _ in range(16):
            bits = rng.integers(0, 2, shape)
            if not any(other.shape == shape and (other == bits).all() for other in drawn.values()):
                break
        drawn[spec.name] = bits
        low, high = ranges.get(spec.name, (0, 2))
        for own, chosen in zip(marks, (bits, 1 - bits), strict=True):
            own[spec.name] = (low + chosen * min(1, (high - low) / 2)).astype(as_dtype(spec.dtype))
    return marks


def _arrivals(calls: list[LayerCall]) -> Iterator[tuple[Any, Role]]:
    """Yields the tensors that embeddings and position encodings receive, and their roles."""
    import keras

    from keras_pe.layers.base import PositionLayer
    from keras_pe.layers.grid_bias_base import GridBiasLayer

    for call in calls:
        layer = call.layer
        if isinstance(layer, keras.layers.Embedding):
            yield call.arguments[0], Role("ids", 0, layer.input_dim)
        elif isinstance(layer, GridBiasLayer):
            for value, size in zip(call.keywords.get("positions") or (), layer.grid_shape, strict=False):
                yield value, Role("positions", 0, size)
        elif isinstance(layer, PositionLayer):
            bound = layer.max_length if isinstance(layer.max_length, int) else None
            low, high = (-_REACH, _REACH) if bound is None else (0, bound)
            named = dict(zip(("inputs", "positions", "start_index"), call.arguments, strict=False)) | call.keywords
            for argument, role in (("positions", "positions"), ("start_index", "start")):
                for value in keras.tree.flatten(named.get(argument)):
                    if keras.ops.is_tensor(value):
                        yield value, Role(role, low, high)


def _recognize(
    arrived: Sequence[tuple[Any, Role]],
    marks: tuple[Mapping[str, Array], Mapping[str, Array]],
    tensors: Mapping[str, Any],
    arrivals: Callable[[Mapping[str, Any]], list[tuple[Any, Role]]],
) -> Iterator[tuple[str, Role]]:
    """Yields the input of each arrival, and its role, if exactly one input fits.

    An input is certain if the same tensor arrives. If only its values arrive, they must arrive again with zeros and
    ones exchanged, and with other marks. The output of a lookup may also consist of zeros and ones.
    """
    import keras

    certain = [[name for name, tensor in tensors.items() if value is tensor] for value, _ in arrived]
    possible = [names or _alike(value, marks[0]) for names, (value, _) in zip(certain, arrived, strict=True)]
    for turn in range(_TURNS):
        open_places = [i for i, names in enumerate(certain) if not names and possible[i]]
        if not open_places or (turn >= _FEWEST_TURNS and all(len(possible[i]) == 1 for i in open_places)):
            break
        roles = {name: arrived[i][1] for i in open_places for name in possible[i]}
        others = dict(marks[1]) if turn == 0 else _other_marks(turn, marks[1], roles)
        try:
            again = arrivals({name: keras.ops.convert_to_tensor(array) for name, array in others.items()})
        except Exception:  # another layer may refuse a value that is valid for the role
            again = []
        if len(again) != len(arrived):
            possible = [names if turn else certain[i] for i, names in enumerate(possible)]
            continue
        for i in open_places:
            same = _alike(again[i][0], others)
            possible[i] = [name for name in possible[i] if name in same]
    yield from ((names[0], role) for names, (_, role) in zip(possible, arrived, strict=True) if len(names) == 1)


def _other_marks(turn: int, marks: Mapping[str, Array], roles: Mapping[str, Role]) -> dict[str, Array]:
    """Returns marks in which other integers replace some.

    In the second and third turn, the integers are below and above the valid ones. Only a model that computes with the
    input, by `abs` or a remainder for example, accepts these. In every other turn, they are valid.
    """
    rng = np.random.default_rng(turn)
    others = dict(marks)
    for name, role in roles.items():
        low = max(int(role.low or 0), 0)
        high = min(int(role.high or _MOST_MARK), low + _MOST_MARK)
        if turn in (2, 3):
            low, high = (
                (low - max(high - low - 1, 1), low)
                if turn == 2
                else (int(role.high or high), int(role.high or high) + 27)
            )
        others[name] = rng.integers(low, max(high, low + 1), marks[name].shape).astype(marks[name].dtype)
    return others


def _alike(value: Any, marks: Mapping[str, Array]) -> list[str]:
    """Returns the names of the marks with the shape and the values of an array."""
    import keras

    array = keras.ops.convert_to_numpy(value).astype(np.float64)
    return [name for name, mark in marks.items() if mark.shape == array.shape and (mark == array).all()]
