"""`identify` names what made the table of an image: its convention, size, order and class tokens, or nothing."""

import itertools
from collections import Counter

import numpy as np
import pytest

from keras_pe import timing_signal
from keras_pe.conventions import CONVENTIONS, Match, identify
from tests.conventions.identification.test_identification import STORED
from tests.samples import sample_cases

IMAGES = {name: each for name, each in CONVENTIONS.items() if each.axes == 2 and each.schedule}
# Made column after column, and of the width first.
TRANSPOSED = {"moco-v3-2d", "d-fine-2d"}
WIDTH_FIRST = {"mae-2d", "dit-2d", "big-vision-2d", "diffusers-2d", *TRANSPOSED}
PHASES = {"timm-2d", "perceiver-2d"}
PLACES = {
    "diffusers-2d": lambda k, size: k * 16 / size,
    "detr-normalized-2d": lambda k, size: (k + 1) / (size + 1e-6) * 2 * np.pi,
    "dab-detr-2d": lambda k, size: (k + 1) / (size + 1e-6) * 2 * np.pi,
    "deformable-detr-2d": lambda k, size: (k + 0.5) / (size + 1e-6) * 2 * np.pi,
    "perceiver-2d": lambda k, size: np.linspace(-1, 1, size)[k],
    "timm-fourier-2d": lambda k, size: np.linspace(-1, 1, size)[k],
    "detr-2d": lambda k, size: k + 1,
}
Case = tuple[str, int, tuple[int, int], int, int, str, str]


def waves(name: str, index: np.ndarray, size: int, channels: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sines and the cosines of one axis, their angles formed in this dtype."""
    positions = PLACES.get(name, lambda k, size: k)(index, size)
    rates = 1 / IMAGES[name].timescales(channels)
    angles = np.multiply.outer(np.asarray(positions).astype(dtype), rates.astype(dtype))
    return np.sin(angles), np.cos(angles)


def image(name: str, channels: int, shape: tuple[int, int], dtype: str = "float64") -> np.ndarray:
    """Returns a convention's table, as its code makes it."""
    height, width = shape
    rows, columns = (each.reshape(-1) for each in np.meshgrid(np.arange(height), np.arange(width), indexing="ij"))
    if name in TRANSPOSED:
        columns, rows = (each.reshape(-1) for each in np.meshgrid(np.arange(width), np.arange(height), indexing="ij"))
    axes = [waves(name, rows, height, channels, dtype), waves(name, columns, width, channels, dtype)]
    axes = axes[::-1] if name in WIDTH_FIRST else axes
    if name in PHASES:
        return np.concatenate([wave for phase in zip(*axes, strict=True) for wave in phase], axis=1)
    if IMAGES[name].layout == "interleaved":
        return np.concatenate([np.stack(each, axis=2).reshape(len(rows), -1) for each in axes], axis=1)
    return np.concatenate([wave for each in axes for wave in each], axis=1)


def table(case: Case) -> np.ndarray:
    name, channels, shape, class_tokens, cut, dtype, stored = case
    places = image(name, channels, shape, dtype)
    places = places[: len(places) - cut]
    return STORED[stored](np.concatenate([np.zeros((class_tokens, channels)), places]))


def made_by(match: Match, case: Case) -> np.ndarray:
    """Returns what a match says that the table is."""
    assert match.grid
    names = match.conventions or match.timescales_of
    again = image(names[0], case[1], match.grid.shape)
    return np.concatenate([np.zeros((match.grid.class_tokens, case[1])), again])[: len(table(case))] * match.scale


def check(every: list[Case]) -> Counter[str]:
    found: Counter[str] = Counter()
    for case in every:
        name, _, shape, class_tokens, cut, *_ = case
        given = table(case).astype(np.float64)
        matches = identify(table(case))
        named = [match for match in matches if match.conventions]
        assert all(match.grid and match.grid.class_tokens == class_tokens for match in named), (case, matches)
        for match in named:
            assert np.abs(made_by(match, case) - given).max() <= match.max_abs_diff * 1.001 + 1e-9, (case, match)
        right = [
            match for match in named if name in match.conventions and match.grid and (cut or match.grid.shape == shape)
        ]
        assert right or not named, (case, matches)
        found["named" if right and right[0] is matches[0] else "among" if right else "unnamed"] += 1
    return found


WIDTHS, SHAPES = (4, 16, 96), ((2, 2), (3, 5), (14, 14), (24, 18))


def cases() -> list[Case]:
    """Every convention in these widths, shapes and ways of storage; parts of an image cannot be told when cut."""
    every = itertools.product(IMAGES, WIDTHS, SHAPES, (0, 1), (0, 3), ("float64", "float32"), STORED)
    return [
        case
        for case in every
        if IMAGES[case[0]].has(case[1])
        and (not case[4] or (case[0] not in set(PLACES) - {"detr-2d"} and case[2][0] > 2))
    ]


@pytest.mark.parametrize("step", sample_cases([41, 1], [41]))
@pytest.mark.timeout(3600)
def test_every_image_is_named_right_or_not_at_all(step: int) -> None:
    found = check(cases()[::step])
    print(
        f"of {found.total()} tables {found['named']} named first, {found['among']} among others, {found['unnamed']} not"
    )
    assert found["named"] + found["among"] >= 0.95 * found.total(), found


def test_an_image_is_named_with_its_size_its_order_and_its_class_token() -> None:
    (match,) = identify(table(("mae-2d", 64, (6, 9), 1, 0, "float32", "float16")))
    assert match.conventions == ("mae-2d", "dit-2d")
    assert match.grid
    assert (match.grid.shape, match.grid.class_tokens, match.grid.reverse_axes) == ((6, 9), 1, True)
    assert match.details()["grid"] == "6 x 9 by rows, columns of the width first, after 1 class tokens"


def test_the_identification_of_an_image_table_reproduces_the_table() -> None:
    import keras_pe

    for name in ("moco-v3-2d", "deformable-detr-2d", "timm-2d"):
        given = table((name, 24, (5, 7), 1, 0, "float64", "float64"))
        match = next(match for match in identify(given) if name in match.conventions)
        layer = keras_pe.SinusoidalPositionEncoding(combine="replace", **match.layer_arguments())
        again = np.asarray(layer(np.zeros((1, *given.shape), np.float32)))[0]
        np.testing.assert_allclose(again, given, rtol=0, atol=2.5e-7)


def test_a_table_made_column_after_column_is_explained_both_ways() -> None:
    by_rows, by_columns = identify(image("moco-v3-2d", 32, (4, 6)))
    assert by_rows.conventions == ("rt-detr-2d",)
    assert by_columns.conventions == ("moco-v3-2d", "d-fine-2d")
    assert by_rows.grid
    assert by_columns.grid
    assert (by_rows.grid.shape, by_columns.grid.shape) == ((6, 4), (4, 6))


def test_axes_in_an_order_that_nobody_has_are_told_as_such() -> None:
    (match,) = identify(np.roll(image("big-vision-2d", 32, (5, 7)), 16, axis=1))
    assert match.conventions == ("tensor2tensor-2d",)
    (match,) = identify(np.roll(image("detr-normalized-2d", 32, (5, 7)), 16, axis=1))
    assert (match.conventions, match.timescales_of) == ((), ("detr-normalized-2d",))


def test_a_class_token_before_a_sequence_is_told() -> None:
    (match,) = identify(np.concatenate([np.zeros((1, 32)), timing_signal(np.arange(20), 32)]))
    assert "tensor2tensor" in match.conventions
    assert match.grid
    assert (match.start_index, match.grid.shape, match.grid.class_tokens) == (0, (20,), 1)


def test_a_table_of_no_known_image_convention_has_no_match() -> None:
    rng, mae = np.random.default_rng(0), image("mae-2d", 64, (7, 7))
    others = {
        "rows exchanged": mae[rng.permutation(49)],
        "columns exchanged": mae[:, rng.permutation(64)],
        "trained on": mae + rng.normal(scale=0.02, size=mae.shape),
        "negated": -mae,
        "another longest timescale": np.concatenate(
            [timing_signal(np.tile(np.arange(7), 7), 32, max_timescale=9900.0, endpoint=False)] * 2, axis=1
        ),
        "one value off": np.where(np.arange(64) == 9, mae + 0.1, mae),
        "a zero row inside": np.where(np.arange(49)[:, np.newaxis] == 20, 0.0, mae),
        "scaled by axes": mae * np.repeat([1.0, 0.9], 32),
    }
    assert {kind: identify(each) for kind, each in others.items() if identify(each)} == {}
