"""The errors that Keras makes in rounding near some cases: measured where inputs and weights are nudged a little."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.law import is_float, noise_floors, rounding_noise
from keras_pe.export.model.rebuild import float64_allowed
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays, as_dtype

_SAMPLES = 3  # where one run may have been lucky
_AT_ONCE = 2**22  # values that are nudged together: what that takes is several times their own memory
_MOST = 2**27  # weights that are nudged: twice more of a large model do not fit into memory, and these move the rest


def measure_noise(
    model: Any, float64_model: Any, cases: Sequence[Case], predict: Callable[[Any, Mapping[str, Array]], Arrays]
) -> list[dict[str, Array]]:
    """Returns the noise floors of each case, by output, as the law has them.

    Args:
        model: The model as it computes. It is left as it is.
        float64_model: Its rebuild, whose weights have their own values again afterwards.
        cases: What the inputs are near.
        predict: Returns the outputs of one of both.
    """
    floors: list[dict[str, Array]] = [{} for _ in cases]
    pairs = _nudgeable(zip(model.trainable_variables, float64_model.trainable_variables, strict=True))
    own, wider = [one for one, _ in pairs], [other for _, other in pairs]
    try:
        for seed in range(_SAMPLES):
            rng = np.random.default_rng(seed)
            inputs, weights = _nudged_together(cases, own, rng)
            with state_left_alone(zip(own, weights, strict=True)):
                narrow = [predict(model, each) for each in inputs]
            _assign(wider, weights)  # the rebuild is nobody's: there is no room for its weights twice
            weights.clear()
            with float64_allowed(rng), state_left_alone():
                wide = [predict(float64_model, each) for each in inputs]
            for floor, answer, truth in zip(floors, narrow, wide, strict=True):
                for name, array in truth.items():
                    if array.dtype == "float64":
                        floor[name] = np.maximum(floor.get(name, 0.0), noise_floors(answer[name], array))
    finally:
        _assign(wider, (variable.value for variable in own))
    return floors


def measure_spread(
    model: Any,
    cases: Sequence[Case],
    predict: Callable[[Any, Mapping[str, Array]], Arrays],
    precision: str | None = None,
) -> list[dict[str, Array]]:
    """Returns how far a model moves where it is nudged, in each case, by output.

    Args:
        model: The model as it computes. It is left as it is.
        cases: What the inputs are near.
        predict: Returns its outputs.
        precision: That of the steps by which it is nudged; float32 where none is given.
    """
    floors: list[dict[str, Array]] = [{} for _ in cases]
    chosen = model.trainable_variables if precision is None else _rounded(model, precision)
    own = [variable for variable, _ in _nudgeable((variable, variable) for variable in chosen)]
    with state_left_alone():
        plain = [predict(model, case.inputs) for case in cases]
    for seed in range(_SAMPLES):
        rng = np.random.default_rng(seed)
        inputs, weights = _nudged_together(cases, own, rng, precision)
        with state_left_alone(zip(own, weights, strict=True)):
            moved = [predict(model, each) for each in inputs]
        for floor, answer, other in zip(floors, plain, moved, strict=True):
            for name, array in answer.items():
                if is_float(array.dtype):
                    floor[name] = np.maximum(floor.get(name, 0.0), noise_floors(other[name], array.astype(np.float64)))
    return floors


def _rounded(model: Any, precision: str) -> list[Any]:
    """Returns the weights that a file of a precision has in it, frozen ones too: in integers kernels and tables."""
    least = 2 if precision == "int8" else 0
    return [each for each in model.weights if is_float(as_dtype(each.dtype)) and len(each.shape) >= least]


def _nudgeable(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Returns the weights that are nudged: of a model that has too many, the smallest."""
    chosen, count = [], 0
    for pair in sorted(pairs, key=lambda pair: int(np.prod(pair[0].shape))):
        count += int(np.prod(pair[0].shape))
        if count > _MOST:
            break
        chosen.append(pair)
    return chosen


def _nudged_together(
    cases: Sequence[Case], variables: Iterable[Any], rng: np.random.Generator, precision: str | None = None
) -> tuple[list[Arrays], list[Any]]:
    """Returns inputs near each case, and values near those of the weights."""
    inputs = [{name: _nudged(array, rng, precision) for name, array in case.inputs.items()} for case in cases]
    return inputs, [_tensor(_nudged(_numpy(variable), rng, precision), variable.dtype) for variable in variables]


def _nudged(array: Array, rng: np.random.Generator, precision: str | None) -> Array:
    """Returns floats that are off as by rounding to a precision; other values as they are."""
    if array.dtype.kind != "f":
        return array
    nudged = array.flatten()
    for start in range(0, nudged.size, _AT_ONCE):
        part = nudged[start : start + _AT_ONCE]
        part[...] = part + rounding_noise(part, precision, rng)
    return nudged.reshape(array.shape)


def _assign(variables: Iterable[Any], values: Iterable[Any]) -> None:
    """Gives variables the values of others, in their own precision."""
    import keras

    with float64_allowed():
        for variable, value in zip(variables, values, strict=True):
            variable.assign(keras.ops.cast(value, variable.dtype))


def _numpy(variable: Any) -> Array:
    import keras

    array: Array = keras.ops.convert_to_numpy(variable.value)
    return array


def _tensor(array: Array, dtype: str) -> Any:
    import keras

    return keras.ops.cast(keras.ops.convert_to_tensor(array), dtype)
