"""Infers how an artifact rotates the channel pairs of a position layer: the positions and the rates.

A rotary layer multiplies each pair by a point on a circle. The sine and the cosine of a signal are also such a point.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_pe.conventions.identification.rotation import measure
from keras_pe.export.parity.diagnosis.call_positions import axes_of, positions_given
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, with_inputs
from keras_pe.export.results import Array
from keras_pe.signal.formula import Float64Array, resolve_timescales
from keras_pe.signal.layouts import column_order, join_axes

Points = npt.NDArray[np.complex128]

_FEWEST = 4  # least number of adjacent positions that show a rate
_FEW_ROWS = 64
_EVEN = 5e-3  # largest distance of points from a uniform rotation, relative to the radius, even in bfloat16
_SHOWN = 2.0**-8  # largest distance of points from the circle that show a position, relative to the radius


class Turns(NamedTuple):
    """The points of a call, and the positions of the call.

    Attributes:
        points: `(batch or 1, length, pairs)`, with further axes of positions before the pairs.
        positions: One array for each axis of positions, which broadcasts to the points without their pairs.
    """

    points: Points
    positions: tuple[Float64Array, ...]

    def sample(self) -> "Turns":
        """Returns a few evenly spaced points, `(rows, pairs)`, with their positions."""
        rows = self.points.reshape(-1, self.points.shape[-1])
        some = np.unique(np.linspace(0, len(rows) - 1, _FEW_ROWS).astype(int))
        own = (np.broadcast_to(each, self.points.shape[:-1]).reshape(-1)[some] for each in self.positions)
        return Turns(rows[some], tuple(own))


class Rates(NamedTuple):
    """The rates of a layer's pairs.

    Attributes:
        rates: `(pairs,)`, radians per position.
        radius: Radius of the circle.
        axes: `(pairs,)`, the axis of positions that rotates each pair.
    """

    rates: Float64Array
    radius: float
    axes: npt.NDArray[np.intp]

    def at(self, positions: tuple[Float64Array, ...]) -> Points:
        """Returns the points at some positions; see `Turns`."""
        own = np.stack(np.broadcast_arrays(*positions), axis=-1)[..., self.axes]
        points: Points = self.radius * np.exp(1j * (own * self.rates))
        return points

    def distance(self, turns: Turns) -> float:
        """Returns the largest distance of points from these rates, relative to the radius."""
        away = np.abs(turns.points - self.at(turns.positions)).max(initial=0.0)
        return float(away / np.abs(turns.points).max(initial=1e-30))


def turns_of(fault: LayerFault, output: Array | None) -> Turns | None:
    """Returns the rotation of a layer's pairs in an output of it; None unless the output shows it."""
    kind = next((each for each in type(fault.call.layer).__mro__ if each.__name__ in _TURNS), None)
    if output is None or kind is None or output.shape != fault.expected.shape:
        return None
    with np.errstate(all="ignore"):
        turns = _TURNS[kind.__name__](fault, output)
    return turns if turns is not None and turns.points.size and np.isfinite(turns.points).all() else None


def rates_of(layer: Any, config: Mapping[str, Any]) -> Rates | None:
    """Returns the rates of a layer with a configuration; None for a layer without pairs."""
    kind = next((each for each in type(layer).__mro__ if each.__name__ in _RATES), None)
    return None if kind is None else _RATES[kind.__name__](layer, config)


def uniform_rates(turns: Turns) -> Rates | None:
    """Returns the rates that points show; None unless all rotate uniformly by a single axis."""
    if len(turns.positions) > 1:
        return None
    positions = np.broadcast_to(turns.positions[0], turns.points.shape[:-1]).ravel()
    points = turns.points.reshape(len(positions), -1)
    index, first = np.unique(positions, return_index=True)
    if len(index) < _FEWEST or not np.isclose(np.diff(index), 1).any() or not np.allclose(index, np.rint(index)):
        return None
    found = measure(points[first], np.rint(index).astype(np.intp))
    even = found.off <= _EVEN
    return Rates(found.rates, found.radius, np.zeros(len(found.rates), np.intp)) if even else None


def positions_shown(turns: Turns, rates: Rates) -> Float64Array | None:
    """Returns the position of each point of one axis, `(batch or 1, length)`; None unless all points have one.

    The slowest pair gives a first estimate, and each faster pair refines it.
    """
    fast_last = [pair for pair in np.argsort(np.abs(rates.rates)) if abs(rates.rates[pair]) > 0]
    if len(turns.positions) > 1 or not fast_last:
        return None
    points = turns.points / np.where(np.abs(turns.points) > 0, np.abs(turns.points), 1.0)
    found = np.zeros(points.shape[:-1])
    for pair in fast_last:
        found += np.angle(points[..., pair] * np.exp(-1j * rates.rates[pair] * found)) / rates.rates[pair]
    near = np.rint(found)
    found = np.where(np.abs(found - near) < 1e-3 + 2e-6 * np.abs(near), near, found)
    away = np.abs(turns.points - rates.at((found,))).max(initial=0.0)
    return found if away <= _SHOWN * rates.radius else None


def _rotary_turns(fault: LayerFault, output: Array) -> Turns | None:
    """Returns the factor of each pair of a rotary layer's queries, over all heads."""
    layer, queries = fault.call.layer, fault.call.inputs[min(fault.index, len(fault.call.inputs) - 1)]
    if queries.shape != output.shape:
        return None
    channels = queries.shape[layer.feature_axis]
    width, rank = layer.rotary_dim or channels, queries.ndim
    before, after = (np.moveaxis(each, layer.feature_axis, -1)[..., :width] for each in (queries, output))
    blocks = layer.sections if layer.split_sections and layer.sections else (width // 2,)
    before = _in_pairs(before, blocks, is_joined=layer.layout == "halves")
    after = _in_pairs(after, blocks, is_joined=layer.layout != "interleaved")
    places = [axis % rank - (axis % rank > layer.feature_axis % rank) for axis in layer.sequence_axis]
    heads = tuple(axis for axis in range(1, rank - 1) if axis not in places)
    weight = (np.abs(before) ** 2).sum(axis=heads)
    points = (after * before.conj()).sum(axis=heads) / weight
    positions = positions_given(fault)
    if len(places) > 1:  # each sequence runs along an axis of its own
        order = np.argsort(np.argsort(places))
        shapes = [[len(each), *(1 for _ in places)] for each in positions]
        for each, shape, place in zip(positions, shapes, order, strict=True):
            shape[1 + place] = each.shape[1]
        positions = [each.reshape(shape) for each, shape in zip(positions, shapes, strict=True)]
    return Turns(points, tuple(positions))


def _in_pairs(channels: Array, blocks: Sequence[int], *, is_joined: bool) -> Points:
    """Returns the channels of each block of pairs as complex numbers, from the block's halves or from neighbors."""
    points = []
    for block in np.split(channels.astype(np.float64), 2 * np.cumsum(blocks)[:-1], axis=-1):
        one, other = np.split(block, 2, axis=-1) if is_joined else (block[..., ::2], block[..., 1::2])
        points.append(one + 1j * other)
    return np.concatenate(points, axis=-1)


def _block_width(layer: Any) -> int:
    """Returns the number of a signal's channels for each axis, in whole pairs; all channels for a single axis."""
    axes, channels = axes_of(layer), int(layer.input_spec.axes[-1])
    return channels if axes == 1 else channels // (2 * axes) * 2


def signal_of(fault: LayerFault, output: Array) -> Array:
    """Returns the signal in an output: the summand of the first input, the part beside it, or the whole output."""
    layer, x = fault.call.layer, fault.call.inputs[0]
    if layer.combine == "add":
        signal = output - fault.expected + with_inputs(fault, [(x, np.zeros_like(x))])
    else:
        signal = output[..., x.shape[-1] :] if layer.combine == "concatenate" else output
    return np.asarray(signal)


def _signal_turns(fault: LayerFault, output: Array) -> Turns | None:
    layer, signal, positions = fault.call.layer, signal_of(fault, output), positions_given(fault)
    start = layer.start_index
    starts = list(start) if isinstance(start, list | tuple) else [start] * len(positions)
    if layer.grid_shape is not None or layer.coordinates is not None:
        return None
    if len(positions) > 1:
        return _grid_turns(layer, signal, [each + start for each, start in zip(positions, starts, strict=True)])
    shown = signal if len(positions[0]) > 1 or not np.allclose(signal, signal[:1], atol=1e-4) else signal[:1]
    return Turns(_circles(shown, layer.layout), (positions[0] + starts[0],))


def _grid_turns(layer: Any, signal: Array, positions: list[Float64Array]) -> Turns | None:
    """Returns the points of a signal of several axes, with the pairs of one axis after the other."""
    axes, block = len(positions), _block_width(layer)
    if signal.ndim != axes + 2 or block < 2:
        return None
    columns = [np.arange(block) + axis * block for axis in range(axes)]
    joined = join_axes(columns[::-1] if layer.reverse_axes else columns, layer.layout, layer.blocks)
    ordered = signal[..., np.argsort(joined)]
    points = [_circles(each, layer.layout) for each in np.split(ordered, axes, axis=-1)]
    shapes = [[-1 if each in (0, axis + 1) else 1 for each in range(axes + 1)] for axis in range(axes)]
    own = [each.reshape([len(each), *shape[1:]]) for each, shape in zip(positions, shapes, strict=True)]
    return Turns(np.concatenate(points, axis=-1), tuple(own))


def _timestep_turns(fault: LayerFault, output: Array) -> Turns:
    layer = fault.call.layer
    layout = "cosine_first" if layer.flip_sin_to_cos else "concatenated"
    return Turns(_circles(output.reshape(1, -1, output.shape[-1]), layout), tuple(positions_given(fault)))


def _circles(signal: Array, layout: Any) -> Points:
    """Returns the cosine and sine of each timescale as a complex number."""
    count = signal.shape[-1] // 2
    columns = np.argsort(column_order(count, 2 * count, layout))
    sines, cosines = (signal[..., columns[part]].astype(np.float64) for part in (slice(count), slice(count, None)))
    points: Points = cosines + 1j * sines
    return points


def _rates_of_rotary(layer: Any, config: Mapping[str, Any]) -> Rates:
    from keras_pe.layers.rotary_sections import Sections
    from keras_pe.layers.rotary_signal import Rates as RotaryRates

    channels = layer.input_spec.axes[layer.feature_axis]
    width = channels if config["rotary_dim"] is None else config["rotary_dim"]
    names = ("sections", "axis_of_pair", "interleave_sections", "split_sections")
    pairs, _ = Sections(*(config[name] for name in names)).divide(width, axes_of(layer))
    made = RotaryRates(config["base"], config["scaling"])
    if len(made.alternatives()) > 1:
        raise ValueError("The rates depend on the length of the call.")
    rates, owners = np.zeros(width // 2), np.zeros(width // 2, np.intp)
    for axis, (own, (timescales,)) in enumerate(
        zip(pairs, made.timescales_of_pairs(pairs, shared=config["shared_rates"]), strict=True)
    ):
        rates[own], owners[own] = config["direction"] / timescales, axis
    return Rates(rates, made.of(width).attention_factor, owners)


def _rates_of_signal(layer: Any, config: Mapping[str, Any]) -> Rates:
    schedule = {name: config[name] for name in ("min_timescale", "max_timescale", "endpoint", "timescales")}
    axes = axes_of(layer)
    width = _block_width(layer)
    rates = 1.0 / resolve_timescales(width, **schedule)[: width // 2]
    return Rates(np.tile(rates, axes), config["scale"], np.repeat(np.arange(axes), len(rates)))


def _rates_of_timesteps(layer: Any, config: Mapping[str, Any]) -> Rates:
    count = config["num_channels"] // 2
    growth = config["max_period"] ** (1.0 / (count - config["downscale_freq_shift"]))
    rates = config["scale"] / growth ** np.arange(count)
    return Rates(rates, 1.0, np.zeros(count, np.intp))


# The tables use class names, since this module is imported without Keras.
_TURNS: Mapping[str, Callable[[LayerFault, Array], Turns | None]] = {
    "RotaryPositionEncoding": _rotary_turns,
    "SinusoidalPositionEncoding": _signal_turns,
    "TimestepEmbedding": _timestep_turns,
}
_RATES: Mapping[str, Callable[[Any, Mapping[str, Any]], Rates]] = {
    "RotaryPositionEncoding": _rates_of_rotary,
    "SinusoidalPositionEncoding": _rates_of_signal,
    "TimestepEmbedding": _rates_of_timesteps,
}
