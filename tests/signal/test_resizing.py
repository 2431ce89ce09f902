"""Resized tables of grids, beside those of the functions of other codebases and of PyTorch itself."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from keras_pe import resize_position_table
from tests.golden.grid_tables import RETURNED

# Tables hold numbers up to 4 of which up to 16 are weighted. PyTorch rounds a place, below 14, to float32 once or
# twice: 2**-21, where the weights have slopes of up to 1. docs/how-to/another-image-size.md has these arguments.
ATOL = 1e-5
CONVENTIONS: dict[str, dict[str, Any]] = {
    "dino": {"class_tokens": 1, "scale_offset": 0.1},
    "dinov2": {"class_tokens": 1, "scale_offset": 0.1},
    "dinov2 of registers": {"class_tokens": 1, "antialias": True},
    "dinov2 of both": {"class_tokens": 1, "antialias": True, "scale_offset": 0.1},
    "mae": {"class_tokens": 2},
    "timm": {"class_tokens": 1, "antialias": True},
    "timm bilinear": {"class_tokens": 1, "antialias": True, "interpolation": "bilinear"},
    "timm bilinear of corners": {"class_tokens": 1, "interpolation": "bilinear", "align_corners": True},
    "timm of corners": {"class_tokens": 1, "antialias": True, "align_corners": True},
    "timm oblong": {"class_tokens": 2, "antialias": True, "grid_shape": (6, 10)},
    "timm tiny_vit": {"antialias": True},
    "timm without antialias": {"class_tokens": 1},
    "transformers beit": {"class_tokens": 1},
    "transformers deit": {"class_tokens": 2},
    "transformers dinov2": {"class_tokens": 1},
    "transformers dinov2_with_registers": {"class_tokens": 1, "antialias": True},
    "transformers dpt": {"class_tokens": 1, "interpolation": "bilinear"},
    "transformers siglip2": {"antialias": True, "interpolation": "bilinear"},
    "transformers vit": {"class_tokens": 1},
}


def test_tables_are_resized_as_other_codebases_do() -> None:
    found = set()
    with np.load(RETURNED) as file:
        for name, arguments in CONVENTIONS.items():
            table = file[f"{name}/table"]
            square = (int((table.shape[-2] - arguments.get("class_tokens", 0)) ** 0.5),) * 2
            grid = arguments.get("grid_shape", square)
            others = {key: value for key, value in arguments.items() if key != "grid_shape"}
            for each in file.files:
                owner, _, shape = each.rpartition("/")
                if owner == name and shape != "table":
                    resized = resize_position_table(table, grid, tuple(map(int, shape.split("x"))), **others)
                    np.testing.assert_allclose(resized, file[each].reshape(resized.shape), rtol=0, atol=ATOL)
                    found.add(name)
    assert found == set(CONVENTIONS)


RULES = [
    {"interpolation": interpolation, "antialias": antialias, "align_corners": corners, "scale_offset": offset}
    for interpolation, antialias, corners, offset in itertools.product(
        ("bicubic", "bilinear"), (False, True), (False, True), (0.0, 0.1, 0.25)
    )
    if not (corners and offset)
]
GRIDS = [
    ((14, 14), (37, 37)), ((14, 14), (7, 9)), ((14, 14), (14, 20)), ((5, 9), (3, 40)), ((1, 6), (1, 9)),
    ((6, 1), (9, 3)), ((24, 24), (1, 1)), ((2, 2), (1, 5)), ((64, 64), (20, 77)),
]  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_has_the_numbers_of_pytorch(rule: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for grid, new in GRIDS:
        table = rng.normal(size=(grid[0] * grid[1], 2))
        sizes: dict[str, Any] = {"size": new}
        if rule["scale_offset"]:
            sizes = {"scale_factor": tuple((n + rule["scale_offset"]) / o for n, o in zip(new, grid, strict=True))}
        expected = torch.nn.functional.interpolate(
            torch.from_numpy(table.reshape(1, *grid, 2)).permute(0, 3, 1, 2),
            mode=rule["interpolation"],
            antialias=rule["antialias"],
            align_corners=rule["align_corners"],
            **sizes,
        )
        # In float64 PyTorch rounds as little as this function does.
        resized = resize_position_table(table, grid, new, **rule)
        np.testing.assert_allclose(resized, expected[0].permute(1, 2, 0).reshape(-1, 2), rtol=0, atol=1e-12)


def test_the_same_grid_is_left_alone_and_class_tokens_always() -> None:
    table = np.random.default_rng(0).normal(size=(2, 3 + 5 * 4, 6)).astype("float32")
    for rule in RULES:
        same = resize_position_table(table, (5, 4), (5, 4), class_tokens=3, **rule)
        np.testing.assert_array_equal(same, table)
        assert same is not table
        other = resize_position_table(table, (5, 4), (2, 7), class_tokens=3, **rule)
        np.testing.assert_array_equal(other[:, :3], table[:, :3])
        assert (other.shape, other.dtype) == ((2, 3 + 14, 6), table.dtype)


def test_constant_rows_stay_constant_and_a_grid_may_have_any_number_of_axes() -> None:
    for rule in RULES:
        resized = resize_position_table(np.full((2 * 3 * 4, 1), 0.7), (2, 3, 4), (5, 2, 3), **rule)
        np.testing.assert_allclose(resized, 0.7, rtol=1e-14)  # sums of 16 weights
    line = np.arange(8.0)[:, np.newaxis]
    np.testing.assert_allclose(
        resize_position_table(line, (8,), (15,), interpolation="bilinear", align_corners=True)[:, 0],
        np.arange(15) / 2,
        atol=1e-14,
    )


def test_a_narrow_table_is_rounded_once() -> None:
    wide = np.random.default_rng(0).normal(size=(36, 4)).astype("float16")
    exact = resize_position_table(wide.astype("float64"), (6, 6), (9, 4))
    np.testing.assert_array_equal(resize_position_table(wide, (6, 6), (9, 4)), exact.astype("float16"))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda t: resize_position_table(t, (3, 3), (4, 4)), ValueError, r"`table` must have shape \(\.\.\., 9,"),
        (lambda t: resize_position_table(t, (3, 4), (4,)), ValueError, "`new_grid_shape` must have one size for each"),
        (lambda t: resize_position_table(t, 12, (4, 4)), ValueError, "`grid_shape` must be positive integers"),
        (lambda t: resize_position_table(t, (3, 4), (0, 4)), ValueError, "`new_grid_shape` must be positive integers"),
        (lambda t: resize_position_table(t, (3, 4), (4.0, 4)), ValueError, "`new_grid_shape` must be positive"),
        (lambda t: resize_position_table(t, (3, 4), (4, 4), class_tokens=-1), ValueError, "`class_tokens` must be"),
        (lambda t: resize_position_table(t, (3, 4), (4, 4), interpolation="nearest"), ValueError, "`interpolation`"),
        (lambda t: resize_position_table(t, (3, 4), (4, 4), scale_offset=1), ValueError, "`scale_offset` must be a"),
        (lambda t: resize_position_table(t, (3, 4), (4, 4), scale_offset=1e-4), ValueError, "`scale_offset` must be a"),
        (
            lambda t: resize_position_table(t, (3, 4), (4, 4), scale_offset=0.1, align_corners=True),
            ValueError,
            "`scale_offset` must be 0",
        ),
        (lambda t: resize_position_table(t.astype(int), (3, 4), (4, 4)), TypeError, "`table` must be real floats"),
        (lambda t: resize_position_table(t.astype(complex), (3, 4), (4, 4)), TypeError, "`table` must be real floats"),
    ],
)
def test_an_invalid_argument_is_refused(call: Callable[[Any], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call(np.zeros((12, 2)))
