"""An error about an argument has the argument's name, also after its way through another process."""

import pickle

import keras
import pytest

from keras_pe import SinusoidalPositionEncoding
from keras_pe.argument_errors import ArgTypeError, ArgValueError


def test_an_error_has_the_name_of_the_argument_and_begins_with_it() -> None:
    with pytest.raises(ValueError, match=r"^`max_length` must be at least 1") as raised:
        SinusoidalPositionEncoding(max_length=0)
    assert raised.value.argument == "max_length"


@pytest.mark.parametrize("kind", [ArgValueError, ArgTypeError])
def test_an_error_comes_back_from_another_process_with_its_argument(kind: type) -> None:
    error = pickle.loads(pickle.dumps(kind("x", "must be positive.")))
    assert (type(error), error.argument, str(error)) == (kind, "x", "`x` must be positive.")


def test_the_call_of_a_layer_keeps_the_message_and_the_type() -> None:
    with pytest.raises(TypeError, match="`positions` must be"):
        SinusoidalPositionEncoding()(keras.ops.zeros((1, 2, 4)), positions="first")
