"""Another expression in a statement of user code is run in the current thread alone, and only within its context."""

import threading
from typing import Any

import numpy as np
import pytest

from keras_pe.export.model.watch.changed_code import (
    ChangedCode,
    assigned_attributes,
    assigned_by,
    changed_code,
    changed_statement,
    functions_run,
)
from keras_pe.export.model.watch.code_places import CodePlace


def ages(steps: int) -> Any:
    count = steps - 1
    return np.arange(count, -1, -1)


def weights(steps: int) -> Any:
    age = ages(steps)
    return 1.0 / (1.0 + age)


class Table:
    size = 3

    def __init__(self) -> None:
        self.rows = weights(self.size)


def _change(text: str, other: str) -> ChangedCode:
    changes = changed_code(weights, lambda statement: True)
    return next(each for each in changes if (each.place.operation, each.text) == (text, other))


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
    assert change.place.line in range(weights.__code__.co_firstlineno, weights.__code__.co_firstlineno + 3)


def test_other_threads_run_the_function_as_it_is() -> None:
    found = []
    thread = threading.Thread(target=lambda: found.append(weights(2)))
    with _change("1.0 + age", "1.0 - age").run():
        thread.start()
        thread.join()
    np.testing.assert_allclose(found, [[1 / 2, 1.0]])


def first_of(left: float, right: float) -> float:
    return left - 1 if left < right else right


def test_both_branches_of_a_choice_may_change() -> None:
    changes = {(each.place.operation, each.text) for each in changed_code(first_of, lambda statement: True)}
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


def _statement(text: str) -> CodePlace:
    return CodePlace(__file__, 1, "Table.__init__", text)


def test_attributes_of_a_statement_are_computed_again_with_another_expression() -> None:
    place = _statement("self.rows = weights(self.size)")
    table = Table()
    assert assigned_by(place, table, globals())["rows"].tolist() == table.rows.tolist()
    changes = {text: (own, changed) for own, text, changed in changed_statement(place)}
    own, changed = changes["weights(self.size)[::-1]"]
    assert own.operation == "weights(self.size)"
    assert assigned_by(changed, table, globals())["rows"].tolist() == table.rows[::-1].tolist()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("self.rows = weights(self.size)", ["rows"]),
        ("self.rows: Any = weights(3)", ["rows"]),
        ("self.low, self.high = 0.5, 2.0", ["low", "high"]),
        ("self.scale = self.add_weight(shape=(3,))", []),
        ("self.rows, rows = weights(3), 0", []),
        ("rows = weights(3)", []),
        ("other.rows = weights(3)", []),
        ("self.rows *= 2", []),
        ("def weights(steps): ...", []),
        ("print(weights(3))", []),
        ("weights(", []),
    ],
)
def test_statement_gives_attributes_to_its_object_alone(text: str, names: list[str]) -> None:
    assert assigned_attributes(_statement(text)) == names


def test_statement_that_reads_the_variables_of_its_function_is_not_computed_again() -> None:
    with pytest.raises(NameError):
        assigned_by(_statement("self.rows = weights(size)"), Table(), globals())
