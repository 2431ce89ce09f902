"""A refusal reads as sentences."""

import keras
import pytest

from keras_pe.export.errors import first_line, join_sentences, sentence


def test_each_reason_is_said_once_and_begins_as_a_sentence_but_for_the_first() -> None:
    reasons = join_sentences(["operator 'A' has no form.", "operator 'B' has no form.", "operator 'A' has no form."])
    assert reasons == "operator 'A' has no form. Operator 'B' has no form."


def test_a_sentence_ends_in_one_full_stop_whoever_wrote_it() -> None:
    assert sentence("it failed.") == sentence(ValueError("it failed")) == "it failed."


def test_the_reason_of_an_error_is_its_first_line() -> None:
    assert first_line(ValueError("\nBroken.\nMore.")) == "Broken"
    assert first_line(ValueError()) == "ValueError"


def test_an_error_of_keras_in_a_layer_is_reported_with_its_cause() -> None:
    def broken(x: object) -> None:
        raise ValueError("It broke.\nMore.")

    x = keras.Input((3,))
    inner = keras.layers.Lambda(broken, output_shape=(3,))
    model = keras.Sequential([keras.Input((3,)), keras.Model(x, inner(x))])
    with pytest.raises(ValueError, match="Exception encountered") as caught:
        model(keras.ops.zeros((2, 3)))
    assert first_line(caught.value) == "Lambda.call(): It broke"
