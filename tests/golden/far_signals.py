"""Computes encodings at positions near and far with 50 digits: writes far-signals.npz beside this file.

Usage (in an environment of its own, with mpmath==1.3.0):
    python tests/golden/far_signals.py

A case is a layer, its arguments and its positions, one row for each axis; or the arguments state where the positions
lie. The stored array is the expected result, rounded once to float64. The formulas are those of transformers 5.23.0,
modeling_rope_utils.py (rotary), diffusers 0.42.1, models/embeddings.py (time steps), tensor2tensor 1.15.7 (sinusoids),
Tancik et al. (projections) and Press et al. (ALiBi), written again for numbers of any precision.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RETURNED = Path(__file__).parent / "far-signals.npz"
BASE, CHANNELS, DIGITS = 500_000, 16, 50

_draw = random.Random(26)
WHOLE = [0, 1, 255, 256, 257, 511, 512, 4_095, 65_535, 131_072, 2**20 + 1, 2**23 + 1, 2**24 - 1, -1, -513, -(2**24)]
WHOLE += [_draw.randrange(-(2**24), 2**24) for _ in range(16)]
# Fractions that the position's float64 holds, as does the float32 of the times.
FRACTIONS = [position + _draw.choice([-0.5, 0.25, 0.4375, 0.0078125]) for position in WHOLE[:11]] + [-16_000_000.25]
TIMES = [0.0, 1.0, 0.5, 0.25, 0.0009765625, 0.728515625, 0.999755859375]
ROWS, COLUMNS = WHOLE[:16], WHOLE[16:]

FACTORS = {"short_factor": [1.0 + i / 8 for i in range(8)], "long_factor": [1.0 + 4.0 * i for i in range(8)]}
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0, "max_position_embeddings": 4096, "length": 131_072},
    "yarn": {"factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0, "mscale_all_dim": 0.8},
    "longrope": {"original_max_position_embeddings": 4096, "factor": 32.0, "length": 131_072, **FACTORS},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "proportional": {"partial_rotary_factor": 0.5},
}
XPOS_BASE, XPOS_LENGTH = 512, 2_000
PARTS = {"low": 0.0, "high": 6.25, "at": "ends", "epsilon": 1e-6}  # DETR's, of a turn that is a short number
MATRIX = [[0.3, -0.7, 0.0, 1.25, 3.75, -0.001, 0.5, 0.7], [0.1, 2.5, 0.0, -0.01, -4.2, 0.06, 0.5, 0.0]]


def rotary(**arguments: Any) -> dict[str, Any]:
    """Returns a case of a rotary layer."""
    return {"layer": "RotaryPositionEncoding", "arguments": {"base": BASE, **arguments}, "positions": [WHOLE]}


def sinusoid(*positions: list[Any], **arguments: Any) -> dict[str, Any]:
    """Returns a case of a sinusoid that is returned alone."""
    arguments = {"combine": "replace", **arguments}
    return {"layer": "SinusoidalPositionEncoding", "arguments": arguments, "positions": positions or [WHOLE]}


def times(positions: list[Any], *arguments: Any) -> dict[str, Any]:
    """Returns a case of time steps."""
    names = ("flip_sin_to_cos", "downscale_freq_shift", "scale")
    given = {"num_channels": CHANNELS, **dict(zip(names, arguments, strict=False))}
    return {"layer": "TimestepEmbedding", "arguments": given, "positions": [positions]}


CASES = {
    "rotary": rotary(),
    "rotary, bounded": {**rotary(max_length=2**24), "positions": [[abs(each) % 2**24 for each in WHOLE]]},
    "rotary, between whole positions": {**rotary(), "positions": [FRACTIONS]},
    "rotary, sections": {**rotary(sections=[2, 3, 3], shared_rates=True), "positions": [ROWS, COLUMNS, ROWS[::-1]]},
    "rotary, two axes": {**rotary(), "positions": [ROWS, COLUMNS]},
    **{f"rotary, {kind}": rotary(scaling={"rope_type": kind, **each}) for kind, each in SCALINGS.items()},
    "rotary, xpos": {
        **rotary(scaling={"rope_type": "xpos", "scale_base": XPOS_BASE}, max_length=XPOS_LENGTH),
        "positions": [[*sorted(_draw.sample(range(XPOS_LENGTH), 30)), 0, XPOS_LENGTH - 1]],
    },
    "sinusoid": sinusoid(),
    "sinusoid of the paper": sinusoid(endpoint=False, layout="interleaved"),
    "sinusoid with cosines first": sinusoid(endpoint=False, layout="cosine_first", scale=0.125),
    "sinusoid between whole positions": sinusoid(FRACTIONS),
    "sinusoid of two axes": sinusoid(ROWS, COLUMNS, endpoint=False, reverse_axes=True),
    "sinusoid of parts of an axis": sinusoid(list(range(32)), endpoint=False, coordinates=PARTS),
    "projections": {
        "layer": "FourierFeatures",
        "arguments": {"matrix": MATRIX, "combine": "replace"},
        "positions": [ROWS, COLUMNS],
    },
    "time steps": times(WHOLE),
    "time steps of diffusers": times(FRACTIONS, True, 0.0),
    "time steps of Flux": times(TIMES, True, 0.0, 1000.0),
    **{f"slopes of {heads} heads": {"layer": "AlibiBias", "arguments": {"num_heads": heads}, "positions": [WHOLE]}
       for heads in (8, 12)},
}  # fmt: skip


def rates_of_rope(mp: Any, rope_type: str, channels: int, **given: Any) -> tuple[list[Any], Any]:
    """Returns the rate of each pair, and what queries and keys are multiplied by."""
    base, factor = mp.mpf(BASE), mp.mpf(given.get("factor", 1.0))
    original = given.get("original_max_position_embeddings")
    if rope_type == "dynamic":
        stretch = factor * given["length"] / given["max_position_embeddings"] - (factor - 1)
        base = base * stretch ** (mp.mpf(channels) / (channels - 2))
    rates = [base ** (-mp.mpf(2 * pair) / channels) for pair in range(channels // 2)]
    if rope_type == "linear":
        return [rate / factor for rate in rates], 1
    if rope_type == "yarn":
        ends = [channels * mp.log(original / (turns * 2 * mp.pi)) / (2 * mp.log(base)) for turns in (32, 1)]
        low, high = max(mp.floor(ends[0]), 0), min(mp.ceil(ends[1]), channels - 1)
        ramps = [min(max((pair - low) / (high - low), 0), 1) for pair in range(len(rates))]
        scales = [mp.mpf(given[name]) * mp.log(factor) / 10 + 1 for name in ("mscale", "mscale_all_dim")]
        blended = [rate / factor * ramp + rate * (1 - ramp) for rate, ramp in zip(rates, ramps, strict=True)]
        return blended, scales[0] / scales[1]
    if rope_type == "longrope":
        longer = zip(rates, given["long_factor"], strict=True)
        return [rate / mp.mpf(each) for rate, each in longer], mp.sqrt(1 + mp.log(factor) / mp.log(original))
    if rope_type == "llama3":
        return [_llama3(mp, rate, **given) for rate in rates], 1
    if rope_type == "proportional":
        return [rate * (2 * pair < given["partial_rotary_factor"] * channels) for pair, rate in enumerate(rates)], 1
    return rates, 1


def _llama3(mp: Any, rate: Any, **given: Any) -> Any:
    names = "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"
    factor, low, high, original = (given[name] for name in names)
    wavelength = 2 * mp.pi / rate
    if wavelength > original / mp.mpf(low):
        return rate / factor
    if wavelength < original / mp.mpf(high):
        return rate
    smooth = (original / wavelength - low) / (high - low)
    return (1 - smooth) * rate / factor + smooth * rate


def rotary_values(mp: Any, arguments: dict[str, Any], positions: list[list[Any]]) -> list[list[Any]]:
    """Returns the cosines, then the sines of all pairs, the position of each pair that of its axis."""
    sections = arguments.get("sections") or [CHANNELS // 2 // len(positions)] * len(positions)
    scaling = arguments.get("scaling", {"rope_type": "default"})
    # Sections begin anew, or share the rates of all channels.
    widths = [CHANNELS] if arguments.get("shared_rates") else [2 * size for size in sections]
    parts = [rates_of_rope(mp, channels=width, **scaling) for width in widths]
    rates, factor = [rate for part, _ in parts for rate in part], parts[0][1]
    axes = [axis for axis, size in enumerate(sections) for _ in range(size)]
    angles = [
        [mp.mpf(place[axis]) * rate for axis, rate in zip(axes, rates, strict=True)]
        for place in zip(*positions, strict=True)
    ]
    sizes = [[factor] * len(rates)] * len(angles)
    if scaling["rope_type"] == "xpos":
        # flash-attn 2.8.3, layers/rotary.py, of the queries.
        zetas = [(2 * pair + mp.mpf(CHANNELS) * 2 / 5) / (mp.mpf(CHANNELS) * 7 / 5) for pair in range(len(rates))]
        powers = [mp.mpf(place - XPOS_LENGTH // 2) / XPOS_BASE for place in positions[0]]
        sizes = [[zeta**power for zeta in zetas] for power in powers]
    return [
        [size * turn(each) for turn in (mp.cos, mp.sin) for size, each in zip(*row, strict=True)]
        for row in zip(sizes, angles, strict=True)
    ]


def sinusoid_values(mp: Any, arguments: dict[str, Any], positions: list[list[Any]]) -> list[list[Any]]:
    """Returns a block of columns for each axis, the last one first."""
    count = CHANNELS // len(positions) // 2
    last = count - 1 if arguments.get("endpoint", True) else count
    rates = [mp.mpf(10_000) ** (-mp.mpf(pair) / last) for pair in range(count)]
    scale = mp.mpf(arguments.get("scale", 1.0))

    if "coordinates" in arguments:
        high, epsilon = mp.mpf(PARTS["high"]), mp.mpf(PARTS["epsilon"])
        positions = [[(place + 1) / (len(axis) + epsilon) * high for place in axis] for axis in positions]

    def block(position: Any) -> list[Any]:
        sin, cos = ([scale * turn(mp.mpf(position) * rate) for rate in rates] for turn in (mp.sin, mp.cos))
        if arguments.get("layout") == "interleaved":
            return [each for pair in zip(sin, cos, strict=True) for each in pair]
        return cos + sin if arguments.get("layout") == "cosine_first" else sin + cos

    return [
        [each for position in reversed(place) for each in block(position)] for place in zip(*positions, strict=True)
    ]


def projection_values(mp: Any, arguments: dict[str, Any], positions: list[list[Any]]) -> list[list[Any]]:
    """Returns the sines, then the cosines of whole turns."""
    columns = list(zip(*arguments["matrix"], strict=True))
    turns = [
        [2 * mp.pi * mp.fsum(mp.mpf(p) * mp.mpf(x) for p, x in zip(place, column, strict=True)) for column in columns]
        for place in zip(*positions, strict=True)
    ]
    return [[turn(each) for turn in (mp.sin, mp.cos) for each in row] for row in turns]


def time_values(mp: Any, arguments: dict[str, Any], positions: list[list[Any]]) -> list[list[Any]]:
    """Returns sines, then cosines, or the other way round."""
    count, scale = CHANNELS // 2, mp.mpf(arguments.get("scale", 1.0))
    last = count - mp.mpf(arguments.get("downscale_freq_shift", 1.0))
    rates = [scale * mp.mpf(10_000) ** (-pair / last) for pair in range(count)]
    order = (mp.cos, mp.sin) if arguments.get("flip_sin_to_cos") else (mp.sin, mp.cos)
    return [[turn(mp.mpf(time) * rate) for turn in order for rate in rates] for time in positions[0]]


def slope_values(mp: Any, arguments: dict[str, Any], positions: list[list[Any]]) -> list[list[Any]]:
    """Returns the bias of each head between the position and 0."""
    heads = arguments["num_heads"]
    power = 2 ** (heads.bit_length() - 1)
    slopes = [mp.mpf(2) ** (-mp.mpf(8 * (i + 1)) / power) for i in range(power)]
    slopes += [mp.mpf(2) ** (-mp.mpf(4 * (i + 1)) / power) for i in range(0, 2 * (heads - power), 2)]
    return [[-slope * abs(position) for slope in slopes] for position in positions[0]]


FORMULAS: dict[str, Callable[[Any, dict[str, Any], list[list[Any]]], list[list[Any]]]] = {
    "RotaryPositionEncoding": rotary_values,
    "SinusoidalPositionEncoding": sinusoid_values,
    "FourierFeatures": projection_values,
    "TimestepEmbedding": time_values,
    "AlibiBias": slope_values,
}


def main() -> None:
    """Writes the file."""
    import mpmath

    mpmath.mp.dps = DIGITS
    arrays: dict[str, Any] = {"cases": np.array(json.dumps(CASES))}
    for name, case in CASES.items():
        signal = FORMULAS[case["layer"]](mpmath.mp, case["arguments"], case["positions"])
        arrays[name] = np.array([[float(each) for each in row] for row in signal])
    np.savez_compressed(RETURNED, **arrays)


if __name__ == "__main__":
    main()
