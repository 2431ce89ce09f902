"""Each name is given once, however many ask for it."""

from keras_pe.export.model.signature.declared_inputs import name_inputs
from keras_pe.export.model.watch.nested_arguments import UniqueNames, sanitize, unique


def test_a_name_that_was_given_is_numbered() -> None:
    assert unique(["a", "b", "a", "a_1", "a"], taken=["b"]) == ["a", "b_1", "a_1", "a_1_1", "a_2"]


def test_a_name_that_is_asked_for_often_is_not_counted_up_again() -> None:
    class Counting(set):  # type: ignore[type-arg]
        asked = 0

        def __contains__(self, name: object) -> bool:
            self.asked += 1
            return super().__contains__(name)

    names = UniqueNames()
    names._taken = taken = Counting()
    assert [names.give("node") for _ in range(1000)][-1] == "node_999"
    assert taken.asked <= 3 * 1000  # and not 1000 * 1000 / 2


def test_characters_that_a_format_refuses_become_underscores() -> None:
    assert [sanitize(name) for name in ("a b:0", "2nd", "_x")] == ["a_b_0", "arg_2nd", "arg__x"]


def test_names_of_inputs_differ_in_more_than_their_case() -> None:
    """TensorFlow refuses a signature with the inputs `x` and `X`."""
    assert name_inputs(["X_1", "x", "X", "a b", "A_b"]) == ["X_1", "x", "X_2", "a_b", "A_b_1"]
