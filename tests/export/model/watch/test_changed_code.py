"""Another expression in a statement of user code is run in the current thread alone, and only within its context."""

import contextlib
import threading
from typing import Any

import numpy as np
import pytest

from keras_pe.export.model.watch.changed_code import ChangedCode, changed_code, functions_run, other_numbers


def ages(steps: int) -> Any:
    count = steps - 1
    return np.arange(count, -1, -1)


def weights(steps: int) -> Any:
    age = ages(steps)
    return 1.0 / (1.0 + age)


def _changes(function: Any, *, is_larger: bool = False) -> dict[tuple[str, str], ChangedCode]:
    """Returns the changes of a function by the text of the expression and of the other one."""
    found = changed_code(function, lambda statement: True, is_larger=is_larger)
    return {(each.places[0].operation, each.text): each for each in found}


def _change(text: str, other: str) -> ChangedCode:
    return (_changes(weights) | _changes(weights, is_larger=True))[text, other]


def test_functions_that_a_call_runs_are_those_of_user_code() -> None:
    assert functions_run(lambda: weights(4)) == [weights, ages]


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("1.0 / (1.0 + age)", "(1.0 + age) / 1.0", [3.0, 2.0, 1.0]),
        ("1.0 / (1.0 + age)", "1.0 / 1.0 + age", [3.0, 2.0, 1.0]),
        ("1.0 + age", "1.0 - age", [-1.0, np.inf, 1.0]),
        ("ages(steps)", "ages(steps)[::-1]", [1.0, 1 / 2, 1 / 3]),
        ("steps", "steps + 1", [1 / 4, 1 / 3, 1 / 2, 1.0]),
    ],
)
def test_function_has_another_expression_in_its_context(text: str, other: str, expected: Any) -> None:
    with np.errstate(divide="ignore"):
        change = _change(text, other)
        with change.run():
            np.testing.assert_allclose(weights(3), expected)
    np.testing.assert_allclose(weights(3), [1 / 3, 1 / 2, 1.0])
    assert change.places[0].line in range(weights.__code__.co_firstlineno, weights.__code__.co_firstlineno + 3)


def test_other_threads_run_the_function_as_it_is() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(weights(2)))
    with _change("1.0 + age", "1.0 - age").run():
        thread.start()
        thread.join()
    np.testing.assert_allclose(found, [[1 / 2, 1.0]])


def window(values: Any, start: int, width: int) -> Any:
    return values[start : start + width]


def test_expression_may_change_in_all_its_places() -> None:
    values, found = np.arange(6), set()
    for change in changed_code(window, lambda statement: True, is_larger=True):
        if (change.places[0].operation, change.text) == ("start", "start + 1"):
            with change.run():
                found.add(tuple(window(values, 2, 2).tolist()))
    assert found == {(3,), (2, 3, 4), (3, 4)}


def share(part: float, size: float) -> float:
    return part / np.sqrt(size + 1)


@pytest.mark.parametrize(
    ("text", "other"),
    [("np.sqrt(size + 1)", "np.sqrt(size) + 1"), ("part / np.sqrt(size + 1)", "part / np.sqrt(size) + 1")],
)
def test_parenthesis_may_end_elsewhere(text: str, other: str) -> None:
    assert (text, other) in _changes(share)


def first_of(left: float, right: float) -> float:
    return left - 1 if left < right else right


def test_both_branches_of_a_choice_may_change() -> None:
    changes = _changes(first_of).keys()
    assert {("left - 1", "left + 1"), ("right", "left"), ("left < right", "left > right")} <= changes


def halve_until(limit: float) -> float:
    value = 1.0
    while value > limit:
        value = value / 2
    return value


def test_function_that_may_loop_forever_is_left_as_it_is() -> None:
    assert list(changed_code(halve_until, lambda statement: True)) == []


def area(width: int, height: int) -> int:
    return width + height


def test_changed_number_that_is_much_larger_is_refused() -> None:
    changes = changed_code(area, lambda statement: True)
    product = next(each for each in changes if each.text == "width * height")
    with product.run():
        assert area(3, 4) == 12
        with pytest.raises(ValueError, match=r"Received: 10000\."):
            area(100, 100)


def parts(values: Any, width: int) -> Any:
    values[0, :width] = values[1, width:]
    return np.linspace(0, 1, 3), [each + 1 for each in range(width)]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        (":width", ":"),
        ("(0, :width)", "(:width, 0)"),
        ("width", "2 * width"),
        ("np.linspace(0, 1, 3)", "np.linspace(0, 1, 3, endpoint=False)"),
        ("each + 1", "each"),
        ("range(width)", "width"),
    ],
)
def test_parts_of_an_index_options_and_the_inside_of_a_comprehension_may_change(text: str, other: str) -> None:
    changes = _changes(parts) | _changes(parts, is_larger=True)
    with changes[text, other].run(), contextlib.suppress(TypeError, ValueError):
        parts(np.zeros((2, 4)), 2)


def test_number_of_another_variable_and_of_an_index_is_that_of_the_changed_code() -> None:
    values = np.arange(8.0).reshape(2, 4)
    with _changes(parts)["1", "-1"].run():
        parts(values, 2)
    assert values.tolist() == [[6, 7, 2, 3], [4, 5, 6, 7]]


def turn_table(values: Any) -> Any:
    table = np.asarray(values).cumsum(0)
    return table.T


def repeat_rows(values: Any) -> Any:
    return np.repeat(values, 2, axis=0)


def copy_rows(values: Any) -> Any:
    return np.concatenate([values, values], axis=0)


def tile_rows(values: Any) -> Any:
    return np.tile(values, (2, 1))


def choose_rows(values: Any) -> Any:
    first, last = np.asarray(values)
    if len(first) > 1:
        return np.subtract(first, 1) - 3 * last
    return first


@pytest.mark.parametrize(
    ("function", "text", "other", "expected"),
    [
        (turn_table, "table.T", "table", [[1, 2], [4, 6]]),
        (turn_table, "table", "table[..., ::-1]", [[2, 6], [1, 4]]),
        (turn_table, "np.asarray(values).cumsum(0)", "np.asarray(values)", [[1, 3], [2, 4]]),
        (repeat_rows, "np.repeat(values, 2, axis=0)", "np.concatenate([values] * 2, axis=0)", [[1, 2], [3, 4]] * 2),
        (
            copy_rows,
            "np.concatenate([values, values], axis=0)",
            "np.repeat(values, 2, axis=0)",
            [[1, 2], [1, 2], [3, 4], [3, 4]],
        ),
        (tile_rows, "np.tile(values, (2, 1))", "np.repeat(values, 2, 0)", [[1, 2], [1, 2], [3, 4], [3, 4]]),
        (choose_rows, "np.asarray(values)", "[*np.asarray(values)][::-1]", [-1, -3]),
        (choose_rows, "len(first) > 1", "len(first) < 1", [1, 2]),
        (
            choose_rows,
            "np.subtract(first, 1) - 3 * last",
            "np.subtract(last, 1) - 3 * first",
            [-1, -3],
        ),
    ],
)
def test_person_may_write_another_expression(function: Any, text: str, other: str, expected: Any) -> None:
    changes = _changes(function) | _changes(function, is_larger=True)
    with changes[text, other].run():
        assert function([[1, 2], [3, 4]]).tolist() == expected


def test_fractional_numbers_of_a_statement_may_be_any_others() -> None:
    found = [(place.operation, own, change) for place, own, change in other_numbers(weights, lambda _: True)]
    assert [each[:2] for each in found] == [("1.0", 1.0), ("1.0", 1.0)]
    changed = found[-1][-1](2.5)
    assert changed is not None
    with changed.run():
        assert max(weights(3)) == pytest.approx(1 / 2.5)
