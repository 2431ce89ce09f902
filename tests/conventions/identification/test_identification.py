"""`identify` names the convention of a table, lists ambiguous ones, and reports "none" for any other table."""

import itertools
from collections import Counter

import numpy as np
import pytest

from keras_pe import timing_signal
from keras_pe.conventions import CONVENTIONS, Match, identify
from tests.raised import about
from tests.samples import sample_cases

# The conventions whose positions are the rows of a table.
TABLES = {name: each for name, each in CONVENTIONS.items() if each.whole_positions and each.axes == 1}
RNG = np.random.default_rng(5)


def bfloat16(table: np.ndarray) -> np.ndarray:
    """Rounds to bfloat16 (to even) and gives the numbers back as float32."""
    bits = table.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)


def float32_formula(name: str, positions: np.ndarray, channels: int) -> np.ndarray:
    """The arithmetic of a codebase: the product of position and rate is rounded to float32 before the sine."""
    convention = TABLES[name]
    rates = (1 / convention.timescales(channels)).astype(np.float32)
    angles = positions.astype(np.float32)[:, np.newaxis] * rates
    signal = np.zeros((len(positions), channels), np.float32)
    sin, cos = np.sin(angles), np.cos(angles)
    if convention.layout == "cosine_first":
        sin, cos = cos, sin
    half = channels // 2
    if convention.layout == "interleaved":
        signal[:, 0::2], signal[:, 1::2] = sin[:, : (channels + 1) // 2], cos[:, :half]
    else:
        signal[:, :half], signal[:, half : 2 * half] = sin, cos
    return signal


STORED = {
    "float64": lambda table: table,
    "float32": lambda table: table.astype(np.float32),
    "float16": lambda table: table.astype(np.float16),
    "bfloat16": bfloat16,
    "scaled up": lambda table: (table * np.sqrt(512)).astype(np.float32),
    "scaled down, float16": lambda table: (table * 0.02).astype(np.float16),
    "float16, scaled up": lambda table: table.astype(np.float16).astype(np.float32) * np.float32(22.6),
}


Case = tuple[str, int, int, int, str]


def cases(widths: tuple[int, ...], cuts: tuple[int, ...], lengths: tuple[int, ...]) -> list[Case]:
    """Every convention at these widths, first rows (its own, and some cut off) and lengths, in every way of storage."""
    grid = itertools.product(TABLES, widths, cuts, lengths, STORED)
    return [
        (name, channels, TABLES[name].start_index + cut, length, stored)
        for name, channels, cut, length, stored in grid
        if channels % 2 == 0 or TABLES[name].odd_channels
    ]


def exact_names(name: str, channels: int) -> set[str]:
    """The conventions that make the very numbers of this one."""
    table = signal_of(name, channels, np.arange(40))
    return {
        other
        for other, each in TABLES.items()
        if (channels % 2 == 0 or each.odd_channels)
        and np.allclose(signal_of(other, channels, np.arange(40)), table, rtol=0, atol=1e-9)
    }


def signal_of(name: str, channels: int, positions: np.ndarray) -> np.ndarray:
    convention = TABLES[name]
    return timing_signal(positions, channels, layout=convention.layout, timescales=convention.timescales(channels))


def reproduces(match: Match, table: np.ndarray) -> bool:
    """Whether the match's own arguments make the table again, to the difference that it states."""
    arguments = match.layer_arguments()
    positions = np.arange(len(table)) + arguments.pop("start_index")
    again = match.scale * timing_signal(positions, table.shape[1], **arguments)
    # One sequence under two longest timescales is the same but for the last bits of each rate.
    last_bits = 2.0**-52 * positions[-1] * match.scale
    return bool(np.isclose(np.abs(again - table).max(), match.max_abs_diff, rtol=1e-6, atol=1e-12 + last_bits))


def check_confusion(every: list[Case]) -> None:
    confusion: Counter[tuple[str, str]] = Counter()
    names = {(name, channels): exact_names(name, channels) for name, channels, *_ in every}
    unsure = 0
    for name, channels, start, length, stored in every:
        table = STORED[stored](signal_of(name, channels, np.arange(start, start + length)))
        matches = identify(table)
        right = [match for match in matches if set(match.conventions) == names[name, channels]]
        found = bool(right) and start in (right[0].start_index, *right[0].other_starts)
        confusion[name, "right" if found else "wrong"] += 1
        # At 4 channels, 1 and 100 are both 100 ** (0, 1) and 10,000 ** (0, 1 / 2): equal numbers are not ambiguous.
        unsure += len({tuple(np.round(np.log(match.timescales), 6)) for match in matches}) > 1
        assert all(reproduces(match, table.astype(np.float64)) for match in matches)
    assert confusion.total() >= 300
    assert set(confusion) == {(name, "right") for name in TABLES}, confusion
    # Few columns and rows in a narrow type can fit two schedules; then both are listed, and that stays rare.
    assert unsure <= 0.02 * confusion.total()


@pytest.mark.slow
def test_an_odd_width_is_told_as_well_as_an_even_one() -> None:
    for name, channels in itertools.product([name for name in TABLES if TABLES[name].odd_channels], (5, 9, 31)):
        table = signal_of(name, channels, np.arange(20))
        assert exact_names(name, channels) in [set(match.conventions) for match in identify(table)], (name, channels)


# One case of each eleven is a sample with every convention, width, cut, length and way of storage in it.
of_each = pytest.mark.parametrize("step", sample_cases([11, 1], [11]))


@of_each
def test_every_convention_is_recognized_and_none_is_mistaken(step: int) -> None:
    check_confusion(cases(widths=(4, 5, 16, 31, 64), cuts=(0, 1, 1000), lengths=(4, 19))[::step])


@of_each
@pytest.mark.timeout(1800)
def test_every_convention_is_recognized_at_many_widths_and_far_positions(step: int) -> None:
    check_confusion(cases(widths=(6, 9, 32, 127, 512), cuts=(0, 37, 2047, 60_000), lengths=(4, 7, 65))[::step])


def nothing() -> dict[str, np.ndarray]:
    """Tables that no convention made."""
    wide, narrow = signal_of("paper", 64, np.arange(50)), signal_of("tensor2tensor", 4, np.arange(4))
    rotation = np.linalg.qr(RNG.normal(size=(64, 64)))[0]
    column = np.arange(64)
    # GluonNLP 0.10.0, model/transformer.py, _position_encoding_init: no two columns share a timescale.
    unpaired = np.arange(50)[:, np.newaxis] / 10000 ** (2.0 / 64 * column)
    unpaired[:, 0::2], unpaired[:, 1::2] = np.sin(unpaired[:, 0::2]), np.cos(unpaired[:, 1::2])
    return {
        "random": RNG.normal(size=(64, 32)),
        "uniform": RNG.uniform(-1, 1, size=(4, 4)),
        "few random values": RNG.normal(size=(4, 2)),
        "learned": RNG.normal(scale=0.02, size=(512, 64)).astype(np.float32),
        "trained on": wide + RNG.normal(scale=0.02, size=wide.shape),
        "rotated": wide @ rotation,
        "rotated within a pair": wide @ np.linalg.qr(np.eye(64) + 0.3 * RNG.normal(size=(64, 64)))[0],
        "shuffled rows": wide[RNG.permutation(50)],
        "every other row": wide[::2],
        "shuffled columns": wide[:, RNG.permutation(64)],
        "cosines first": np.roll(wide, 1, axis=1),
        "negated": -wide,
        "one value off": np.where(np.arange(64) == 7, wide + 0.1, wide),
        "two columns exchanged": narrow[:, [1, 0, 2, 3]],
        "GluonNLP 0.10.0": unpaired,
        "sines alone": np.sin(np.arange(50)[:, np.newaxis] / 1.2 ** np.arange(64)),
        "constant": np.ones((8, 8)),
        "zeros and ones": np.tile([0.0, 1.0], (8, 4)),
        "one-hot": np.eye(8),
        "shifted by half a position": signal_of("paper", 64, np.arange(50) + 0.5),
        "other rates": timing_signal(np.arange(50), 8, timescales=[1.0, 2.0, 3.0, 4.0]),
    }


@pytest.mark.parametrize("kind", nothing())
def test_a_table_that_no_convention_made_is_none_of_them(kind: str) -> None:
    assert identify(nothing()[kind]) == ()


@pytest.mark.slow
def test_random_tables_of_every_shape_are_none() -> None:
    for length, channels in itertools.product((4, 5, 8, 32), (2, 3, 4, 7, 16)):
        for _ in range(10):
            assert identify(RNG.normal(size=(length, channels))) == ()


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("start", [0, 2000, 30_000])
def test_tables_of_the_float32_formula_are_recognized(name: str, start: int) -> None:
    table = float32_formula(name, np.arange(start, start + 40), 64)
    [match] = identify(table)
    assert set(match.conventions) == exact_names(name, 64)
    assert match.start_index == start


@pytest.mark.parametrize(("channels", "longest"), [(16, 500.0), (64, 9000.0), (64, 100_000.0), (33, 20_000.0)])
@pytest.mark.parametrize("name", ["fairseq", "keras-hub"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_another_longest_timescale_is_found(name: str, channels: int, longest: float, dtype: type) -> None:
    convention = TABLES[name]
    positions = np.arange(convention.start_index, 60)
    scales = convention.timescales(channels, longest)
    table = timing_signal(positions, channels, layout=convention.layout, timescales=scales).astype(dtype)
    match = next(match for match in identify(table) if name in match.conventions)
    assert match.start_index == convention.start_index
    # A float16 angle is off by 2.4e-4 at most, and the rates that tell L turn through several radians in 60 rows.
    assert match.max_timescale == pytest.approx(longest, rel=1e-6 if dtype is np.float32 else 1e-2)


def test_a_longest_timescale_near_the_usual_one_is_not_taken_for_it() -> None:
    # 20 rows of the slow pair differ by 20 / 9000 - 20 / 10000 = 2.2e-4: less than float16 tells, but float32 does.
    matches = identify(timing_signal(np.arange(20), 4, max_timescale=9000).astype(np.float32))
    [longest] = [match.max_timescale for match in matches if "tensor2tensor" in match.conventions]
    assert longest == pytest.approx(9000, rel=1e-4)


def test_the_convention_that_begins_at_this_row_comes_first() -> None:
    for start, first in ((0, "tensor2tensor"), (1, "opennmt-tf"), (2, "fairseq")):
        [match] = identify(signal_of("tensor2tensor", 32, np.arange(start, start + 9)))
        assert match.conventions[0] == first
        assert set(match.conventions) == exact_names("tensor2tensor", 32)


def test_schedules_that_make_the_same_numbers_are_all_named() -> None:
    for table in (timing_signal(np.arange(12), 8, max_timescale=1000.0), signal_of("x-transformers", 8, np.arange(12))):
        usual, other = identify(table.astype(np.float32))
        assert (usual.conventions, usual.max_timescale) == (("x-transformers",), 10_000)
        assert "tensor2tensor" in other.conventions
        assert other.max_timescale == 1000


def test_cosines_first_are_told_from_sines_first() -> None:
    table = signal_of("diffusers-unet", 64, np.arange(3, 40))
    [match] = identify(table)
    assert set(match.conventions) == exact_names("diffusers-unet", 64) >= {"dit", "openai-diffusion"}
    assert (match.layout, match.start_index) == ("cosine_first", 3)


def test_known_timescales_in_a_layout_that_nobody_uses_are_named_as_such() -> None:
    [match] = identify(timing_signal(np.arange(20), 32, layout="interleaved"))
    assert match.conventions == ()
    assert "tensor2tensor" in match.timescales_of
    assert match.layout == "interleaved"


def test_a_zeroed_padding_row_is_passed_over() -> None:
    table = signal_of("fairseq", 64, np.arange(30)).astype(np.float32)
    table[1] = 0
    [match] = identify(table)
    assert "fairseq" in match.conventions
    assert match.start_index == 0


def test_first_positions_that_float16_cannot_tell_apart_are_all_listed() -> None:
    # 710 is 113 turns and 6.0e-5 radians, a quarter of float16's unit below 1.
    table = signal_of("paper", 2, np.arange(1, 5))
    [match] = identify(table.astype(np.float16))
    assert {1, 711} <= {match.start_index, *match.other_starts}
    [exact] = identify(table)
    assert (exact.start_index, exact.other_starts) == (1, ())


@pytest.mark.parametrize("name", ["transformer-xl", "conformer", "gemma-audio"])
@pytest.mark.parametrize("positions", [range(20, -20, -1), range(19, -20, -1), range(300, 100, -1), range(-5, -60, -1)])
@pytest.mark.parametrize("stored", ["float32", "bfloat16", "scaled down, float16"])
def test_rows_in_descending_order_are_distances(name: str, positions: range, stored: str) -> None:
    each = CONVENTIONS[name]
    where, scales = np.array(positions), each.timescales(64)
    [match] = identify(STORED[stored](timing_signal(where, 64, layout=each.layout, timescales=scales)))
    assert (match.conventions[0], match.step, match.start_index) == (name, -1, positions[0])
    np.testing.assert_array_equal(match.positions(len(where)), where)
    arguments = match.layer_arguments()
    assert (arguments.pop("start_index"), match.details()["first position"]) == (0, f"{positions[0]}, descending")
    again = match.scale * timing_signal(match.positions(len(where)), 64, **arguments)
    assert np.abs(again - match.scale * timing_signal(where, 64, layout=each.layout, timescales=scales)).max() < 1e-9


@pytest.mark.parametrize("longest", [1e4, 500.0])
def test_negative_positions_are_told_in_ascending_order_too(longest: float) -> None:
    table = timing_signal(np.arange(-30, 31), 32, layout="interleaved", endpoint=False, max_timescale=longest)
    match = identify(table.astype(np.float32))[0]
    assert (match.step, match.start_index, match.layout) == (1, -30, "interleaved")
    assert match.max_timescale == pytest.approx(longest, rel=1e-6)


@pytest.mark.parametrize("zeros", [slice(0, None, 2), slice(1, None, 2), slice(50, None), slice(0, 50)])
@pytest.mark.parametrize("longest", [1e4, 500.0])
def test_a_table_is_told_by_the_half_of_its_rows_that_are_not_zero(zeros: slice, longest: float) -> None:
    table = timing_signal(np.arange(3, 103), 64, max_timescale=longest).astype(np.float32)
    table[zeros] = 0
    match = identify(table)[0]
    assert (match.start_index, match.max_timescale) == (3, pytest.approx(longest, rel=1e-6))
    assert "tensor2tensor" in match.conventions


def quantize_table(table: np.ndarray, kind: str) -> np.ndarray:
    """Rounds to int8 steps of the table, of each column or of each row, or to unsigned integers around a zero point."""
    if kind == "asymmetric":
        step = (table.max() - table.min()) / 255
    else:
        axis = {"columns": 0, "rows": 1}.get(kind)
        step = np.abs(table).max(axis=axis, keepdims=True) / 127
    whole = np.round(table / np.where(step == 0, 1.0, step))
    if kind.startswith("uint"):
        dtype, point = kind.split(" around ")
        most = np.iinfo(dtype).max
        return (np.round(table / np.abs(table).max() * min(int(point), most - int(point))) + int(point)).astype(dtype)
    return whole.astype(np.int8) if kind == "integers" else (whole * step).astype(np.float32)


INTEGERS = ["integers", "uint8 around 128", "uint8 around 97", "uint16 around 30000"]


@pytest.mark.parametrize("kind", ["table", *INTEGERS, "columns", "rows", "asymmetric"])
@pytest.mark.parametrize(("name", "channels"), [("paper", 64), ("tensor2tensor", 16), ("dit", 128)])
def test_a_table_of_int8_steps_is_recognized(kind: str, name: str, channels: int) -> None:
    start, scale = TABLES[name].start_index, 3.7
    [match] = identify(quantize_table(scale * signal_of(name, channels, np.arange(start, start + 100)), kind))
    assert set(match.conventions) == exact_names(name, channels)
    assert match.start_index == start


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4, 1e-5])
@pytest.mark.parametrize("stored", ["float64", "float32", "scaled up"])
@pytest.mark.parametrize("name", ["paper", "tensor2tensor", "dit"])
def test_noise_that_no_storage_makes_leaves_no_convention(noise: float, stored: str, name: str) -> None:
    signal = signal_of(name, 32, np.arange(60))
    assert identify(STORED[stored](signal + np.random.default_rng(0).normal(scale=noise, size=signal.shape))) == ()


def test_a_table_of_pytorchs_tutorial_is_told_in_its_own_shape() -> None:
    table = signal_of("paper", 32, np.arange(50)).astype(np.float32)
    assert identify(table[:, np.newaxis]) == identify(table[np.newaxis]) == identify(table)


def test_the_scale_and_the_remaining_difference_are_told() -> None:
    table = (16 * signal_of("d2l", 256, np.arange(100))).astype(np.float32)
    [match] = identify(table[np.newaxis])
    assert match.scale == pytest.approx(16, rel=1e-6)
    assert 0 < match.max_abs_diff < 16 * 2.0**-24


@pytest.mark.parametrize("shape", [(4,), (2, 4, 8), (8, 1), (3, 8), (0, 8)])
def test_a_table_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, check=about("table")):
        identify(np.ones(shape))


def test_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="real numbers"):
        identify(np.ones((4, 4), dtype=complex))
    with pytest.raises(ValueError, match="finite"):
        identify(np.full((4, 4), np.nan))
