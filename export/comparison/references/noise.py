"""Measures the rounding errors of a model near some cases, by perturbing inputs, weights and layers by rounding units.

Random perturbations partly cancel from layer to layer. But a runtime whose `tanh` is always a unit too small shifts
every layer in one direction, and its error grows with the depth. The last sample therefore perturbs all layers alike.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from keras_pe.export.comparison.float_types import EPSILON, is_float
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.tolerance import STEP_OF_SHARES, moves, noise_floors, rounding_noise, row_floors
from keras_pe.export.model.rebuild import float64_allowed
from keras_pe.export.model.watch.keras_internals import all_layers, replaced_operations
from keras_pe.export.model.watch.recording import altered_outputs, scaled_outputs, state_left_alone
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays, as_dtype

SAMPLES = 3  # several, since one sample may be exact by luck
_SAMPLES_BY_VALUE = 8  # more, since each value is measured separately
_AT_ONCE = 2**22  # values to perturb at once, which takes several times their memory
_MASKED = -3e4  # a score whose share is 0, in every float
_MOST = 2**27  # weights to perturb; two more copies of a large model do not fit in memory, and these suffice


def measure_noise(
    model: Any,
    float64_model: Any,
    cases: Sequence[Case],
    predict: Callable[[Any, Mapping[str, Array]], Arrays],
    precision: str | None = None,
    *,
    by_row: bool = False,
    exact: Mapping[str, Sequence[float]] = MappingProxyType({}),
    samples: int = SAMPLES,
) -> list[dict[str, Array]]:
    """Returns the noise floors of each case, by output, in the form of the tolerance policy.

    The floors are the errors of a model near the case. For a model without a rebuild, or an accepted precision, they
    are the changes of its outputs. For an accepted precision, each value has its own floor.

    Args:
        model: The model as it computes. Its weights are unchanged afterwards.
        float64_model: The float64 rebuild, whose weights are restored afterwards; None without one.
        cases: The cases whose inputs are perturbed.
        predict: Returns the outputs of a model.
        precision: The precision whose steps perturb inputs and weights, without a rebuild; the default is float32.
        by_row: Whether to return a floor for each row of the first axis, independent of the other rows. It has no
            effect if a precision is accepted.
        exact: Values that the model compares an input itself with, by input. An input with such a value is exact, and
            a perturbed one would be on the other side.
        samples: The number of samples, without an accepted precision.
    """
    floors: list[dict[str, Array]] = [{} for _ in cases]
    variables = model.trainable_variables if precision is None else _rounded_weights(model, precision)
    others = variables if float64_model is None else float64_model.trainable_variables
    pairs = _nudgeable(zip(variables, others, strict=True))
    own, wider = [one for one, _ in pairs], [other for _, other in pairs]
    if float64_model is None:
        with state_left_alone():
            truths = [_in_float64(predict(model, case.inputs)) for case in cases]
    try:
        for seed in range(samples if precision is None else _SAMPLES_BY_VALUE):
            rng = np.random.default_rng(seed)
            inputs, weights = _nudged_together(cases, own, rng, precision, exact, by_row=by_row)
            if precision is None and seed == samples - 1:
                values, rounding = _drift(model, own, weights)
            else:
                values, rounding = list(zip(own, weights, strict=True)), _rounding_between_layers(model, rng, precision)
            with state_left_alone(values), rounding:
                answers = [predict(model, each) for each in inputs]
            values.clear()
            if float64_model is not None:
                _assign(wider, weights)  # in place, since a copy of the weights may not fit in memory
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
    """Returns values of weights, and a context, that make every layer and every recurrent weight one unit too large.

    Args:
        model: The model.
        variables: The perturbed weights.
        nudged: The values of the perturbed weights.
    """
    import keras

    factor = 1 + EPSILON["float32"]
    values = {id(variable): (variable, value) for variable, value in zip(variables, nudged, strict=True)}
    recurrent = (each for layer in all_layers(model) if isinstance(layer, keras.layers.RNN) for each in layer.weights)
    for each in recurrent:
        if is_float(as_dtype(each.dtype)):
            values[id(each)] = each, values.get(id(each), (each, each.value))[1] * factor
    return list(values.values()), scaled_outputs(model, factor)


@contextlib.contextmanager
def _rounding_between_layers(model: Any, rng: np.random.Generator, precision: str | None) -> Iterator[None]:
    """Rounds the results of layers at random, as an artifact of an accepted precision does.

    Without a precision, the context has no effect. A quantizer uses one scale for a tensor, which destroys the values
    of channels that are many times smaller than others. This loss does not count as rounding.

    With integers, the results of a softmax are rounded to a grid instead. In a long sequence each weight of attention
    is less than half a step. The errors of a file then have one sign, and random errors would cancel.
    """
    if precision is None:
        yield
        return

    def round_output(array: Array) -> Array:
        is_plain = array.dtype.kind == "f" and np.isfinite(array).all()
        noise = rounding_noise(array, _computed_precision(precision), rng, by_channel=True) if is_plain else 0.0
        return array + noise

    shares = _rounded_attention(rng, round_output) if precision in ("int8", "int4") else contextlib.nullcontext()
    with shares, altered_outputs(model, round_output):
        yield


def _rounded_attention(
    rng: np.random.Generator, round_scores: Callable[[Array], Array]
) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which each softmax has its results on a grid from 0 to 1, and attention rounded scores."""
    from keras import ops

    def round_shares(shares: Any) -> Any:
        step = STEP_OF_SHARES * rng.uniform(0.5, 2.0)  # quantizers differ in their number of levels
        return ops.round(shares / step) * step

    def softmax(usual: Callable[..., Any], x: Any, axis: Any = -1) -> Any:
        return round_shares(usual(x, axis))

    def attention(
        usual: Callable[..., Any],
        query: Any,
        key: Any,
        value: Any,
        bias: Any = None,
        mask: Any = None,
        scale: float | None = None,
        is_causal: bool = False,
        **others: Any,
    ) -> Any:
        if others.get("attn_logits_soft_cap") is not None:
            return usual(query, key, value, bias, mask, scale, is_causal, **others)
        query, key, value = map(ops.convert_to_tensor, (query, key, value))
        key, value = (ops.repeat(each, query.shape[2] // each.shape[2], axis=2) for each in (key, value))
        scores = ops.einsum("btnh,bsnh->bnts", query, key) * (query.shape[-1] ** -0.5 if scale is None else scale)
        scores = ops.cast(ops.convert_to_tensor(round_scores(ops.convert_to_numpy(scores))), query.dtype)
        scores = scores if bias is None else scores + bias
        if is_causal:
            is_seen = ops.tril(ops.ones(scores.shape[-2:], "bool"))
            mask = is_seen if mask is None else ops.logical_and(mask, is_seen)
        scores = scores if mask is None else ops.where(mask, scores, ops.cast(_MASKED, scores.dtype))
        return ops.einsum("bnts,bsnh->btnh", ops.softmax(scores, axis=-1), value)

    return replaced_operations(nn={"softmax": softmax, "dot_product_attention": attention})


def _computed_precision(precision: str | None) -> str | None:
    """Returns the precision of computed values. A file with 4-bit integers has them in its weights only."""
    return "int8" if precision == "int4" else precision


def _in_float64(outputs: Mapping[str, Array]) -> Arrays:
    return {name: array.astype(np.float64) for name, array in outputs.items() if is_float(array.dtype)}


def _rounded_weights(model: Any, precision: str) -> list[Any]:
    """Returns the weights that a file of a precision rounds, even frozen ones; for integers, kernels and tables."""
    least = 2 if precision in ("int8", "int4") else 0
    return [each for each in model.weights if is_float(as_dtype(each.dtype)) and len(each.shape) >= least]


def _nudgeable(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Returns the weights to perturb; the smallest ones if the model has too many."""
    chosen, count = [], 0
    for pair in sorted(pairs, key=lambda pair: int(np.prod(pair[0].shape))):
        count += int(np.prod(pair[0].shape))
        if count > _MOST:
            break
        chosen.append(pair)
    return chosen


def _nudged_together(
    cases: Sequence[Case],
    variables: Iterable[Any],
    rng: np.random.Generator,
    precision: str | None,
    exact: Mapping[str, Sequence[float]],
    *,
    by_row: bool,
) -> tuple[list[Arrays], list[Any]]:
    """Returns perturbed inputs of each case, but for the exact values, and perturbed values of the weights."""
    from keras import ops

    computed = _computed_precision(precision)

    def nudge_input(name: str, array: Array) -> Array:
        kept = np.array(exact.get(name, ())).astype(array.dtype)
        nudged = _nudge(array, rng, computed, by_row)
        return np.where(np.isin(array, kept), array, nudged) if kept.size else nudged

    inputs = [{name: nudge_input(name, array) for name, array in case.inputs.items()} for case in cases]
    weights = []
    for variable in variables:
        nudged = _nudge(ops.convert_to_numpy(variable.value), rng, precision)
        weights.append(ops.cast(ops.convert_to_tensor(nudged), variable.dtype))
    return inputs, weights


def _nudge(array: Array, rng: np.random.Generator, precision: str | None, by_row: bool = False) -> Array:
    """Returns floats with random rounding errors, equal relative errors in all rows if `by_row`; others unchanged."""
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
    """Assigns the values of other variables, cast to each variable's own precision."""
    import keras

    with float64_allowed():
        for variable, value in zip(variables, values, strict=True):
            variable.assign(keras.ops.cast(value, variable.dtype))
