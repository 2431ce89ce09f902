"""The rounding errors of a model near some cases: its inputs, weights and layers are perturbed by units of rounding.

Random perturbations partly cancel from layer to layer. A runtime whose `tanh` is always a unit too small shifts every
layer the same way instead, and its error grows with the depth of the model: the last sample perturbs all layers alike.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.law import EPSILON, is_float, moves, noise_floors, rounding_noise, row_floors
from keras_pe.export.model.rebuild import float64_allowed
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.recording import altered_outputs, scaled_outputs, state_left_alone
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays, as_dtype

_SAMPLES = 3  # where one run may have been lucky
_SAMPLES_BY_VALUE = 8  # where no other value speaks for one
_AT_ONCE = 2**22  # values that are nudged together: what that takes is several times their own memory
_MOST = 2**27  # weights that are nudged: twice more of a large model do not fit into memory, and these move the rest


def measure_noise(
    model: Any,
    float64_model: Any,
    cases: Sequence[Case],
    predict: Callable[[Any, Mapping[str, Array]], Arrays],
    precision: str | None = None,
    *,
    by_row: bool = False,
) -> list[dict[str, Array]]:
    """Returns the noise floors of each case, by output, as the law has them; of an accepted precision, of each value.

    They are the errors of a model near the case, or of a model without a rebuild how far it moves there.

    Args:
        model: The model as it computes. It is left as it is.
        float64_model: Its rebuild, whose weights have their own values again afterwards; None where there is none.
        cases: What the inputs are near.
        predict: Returns the outputs of a model.
        precision: That of the steps by which inputs and weights are nudged, where there is no rebuild; by default
            float32.
        by_row: Whether the floors are of each row of the first axis, nudged as it would be by itself: what is said of
            a row depends on no other. It has no effect where a precision is accepted.
    """
    floors: list[dict[str, Array]] = [{} for _ in cases]
    variables = model.trainable_variables if precision is None else _rounded(model, precision)
    others = variables if float64_model is None else float64_model.trainable_variables
    pairs = _nudgeable(zip(variables, others, strict=True))
    own, wider = [one for one, _ in pairs], [other for _, other in pairs]
    if float64_model is None:
        with state_left_alone():
            truths = [_in_float64(predict(model, case.inputs)) for case in cases]
    try:
        for seed in range(_SAMPLES if precision is None else _SAMPLES_BY_VALUE):
            rng = np.random.default_rng(seed)
            inputs, weights = _nudged_together(cases, own, rng, precision, by_row=by_row)
            if precision is None and seed == _SAMPLES - 1:
                values, rounding = _drift(model, own, weights)
            else:
                values, rounding = list(zip(own, weights, strict=True)), _rounding_between_layers(model, rng, precision)
            with state_left_alone(values), rounding:
                answers = [predict(model, each) for each in inputs]
            values.clear()
            if float64_model is not None:
                _assign(wider, weights)  # the rebuild is nobody's: there is no room for its weights twice
                weights.clear()
                with float64_allowed(rng), state_left_alone():
                    truths = [predict(float64_model, each) for each in inputs]
            for floor, answer, truth in zip(floors, answers, truths, strict=True):
                for name, array in truth.items():
                    if array.dtype == "float64":
                        of = moves if precision is not None else row_floors if by_row else noise_floors
                        floor[name] = np.maximum(floor.get(name, 0.0), of(answer[name], array))
    finally:
        if float64_model is not None:
            _assign(wider, (variable.value for variable in own))
    return floors


def _drift(
    model: Any, variables: Sequence[Any], nudged: Sequence[Any]
) -> tuple[list[tuple[Any, Any]], contextlib.AbstractContextManager[None]]:
    """Returns the values of weights, and a context, with which every layer and every recurrent weight is a unit too
    large.

    Args:
        model: The model.
        variables: The weights that are nudged.
        nudged: The values of these.
    """
    import keras

    factor = 1 + EPSILON["float32"]
    values = {id(variable): (variable, value) for variable, value in zip(variables, nudged, strict=True)}
    recurrent = (each for layer in all_layers(model) if isinstance(layer, keras.layers.RNN) for each in layer.weights)
    for each in recurrent:
        if is_float(as_dtype(each.dtype)):
            values[id(each)] = each, values.get(id(each), (each, each.value))[1] * factor
    return list(values.values()), scaled_outputs(model, factor)


def _rounding_between_layers(
    model: Any, rng: np.random.Generator, precision: str | None
) -> contextlib.AbstractContextManager[None]:
    """Rounds at random what layers return, as an artifact of an accepted precision does; else leaves it as it is.

    A quantizer takes one scale for a tensor. What this does to channels that are many times smaller than others is not
    counted as rounding: it loses their values.
    """
    if precision is None:
        return contextlib.nullcontext()

    def rounded(array: Array) -> Array:
        is_plain = array.dtype.kind == "f" and np.isfinite(array).all()
        noise = rounding_noise(array, _computed(precision), rng, by_channel=True) if is_plain else 0.0
        return array + noise

    return altered_outputs(model, rounded)


def _computed(precision: str | None) -> str | None:
    """Returns the precision of what is computed: a file of integers of 4 bits has its weights alone in them."""
    return "int8" if precision == "int4" else precision


def _in_float64(outputs: Mapping[str, Array]) -> Arrays:
    return {name: array.astype(np.float64) for name, array in outputs.items() if is_float(array.dtype)}


def _rounded(model: Any, precision: str) -> list[Any]:
    """Returns the weights that a file of a precision has in it, frozen ones too: in integers kernels and tables."""
    least = 2 if precision in ("int8", "int4") else 0
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
    cases: Sequence[Case], variables: Iterable[Any], rng: np.random.Generator, precision: str | None, *, by_row: bool
) -> tuple[list[Arrays], list[Any]]:
    """Returns inputs near each case, and values near those of the weights."""
    from keras import ops

    computed = _computed(precision)
    inputs = [{name: _nudged(array, rng, computed, by_row) for name, array in case.inputs.items()} for case in cases]
    weights = []
    for variable in variables:
        nudged = _nudged(ops.convert_to_numpy(variable.value), rng, precision)
        weights.append(ops.cast(ops.convert_to_tensor(nudged), variable.dtype))
    return inputs, weights


def _nudged(array: Array, rng: np.random.Generator, precision: str | None, by_row: bool = False) -> Array:
    """Returns floats that are off as by rounding to a precision, all rows by one share; other values as they are."""
    if array.dtype.kind != "f":
        return array
    if by_row and array.ndim:
        moved: Array = array * (1 + rounding_noise(np.ones(array.shape[1:]), precision, rng))
        return moved.astype(array.dtype)
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
