"""A decoder with a planted fault of its positions, its mask or its cache has that fault as its cause."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.sweep import draw_case
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.model.decoder import Decoder
from keras_pe.export.model.language_model_adapter import with_cache_as_arguments
from keras_pe.export.parity.diagnosis.causes.caches import _rotations, cache_at_fault
from keras_pe.export.parity.diagnosis.causes.states import state_at_fault
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.results import Cause, Finding
from keras_pe.export.runtimes.runner import InProcessRunner
from keras_pe.export.runtimes.runtime import RuntimeSpec
from tests.export.decoders.small_decoders import RotaryDecoder, language_model, own_decoder

FAULTS = {
    "each call begins at 0": (Cause.START_INDEX_OFF, "position 0"),
    "one position later": (Cause.START_INDEX_OFF, "next"),
    "padding has positions": (Cause.START_INDEX_OFF, "Padding"),
    "padding is visible": (Cause.DROPPED_MASK, "attend to padding"),
    "no mask": (Cause.DROPPED_MASK, "attention_mask"),
    "newest row hidden": (Cause.DROPPED_INPUT, "newest"),
    "oldest row hidden": (Cause.DROPPED_INPUT, "oldest"),
    "one position later after the first call": (Cause.START_INDEX_OFF, "next"),
    "window of 6": (Cause.attribute("window"), "6 positions"),
    "rounded to float16": (Cause.HALF_PRECISION, "float16"),
    "oldest row lost": (Cause.SHIFTED_STATE, "reads"),
    "three rows lost": (Cause.SHIFTED_STATE, "by 3"),
    "keys shifted by 3": (Cause.SHIFTED_STATE, "'past_key_values.0.key' shifted by 3"),
    "heads reversed": (Cause.EXCHANGED_STATES, "its heads"),
    "half of the rows counted": (Cause.START_INDEX_OFF, "half of the rows"),
    "order on reading": (Cause.EXCHANGED_STATES, "reads"),
    "order": (Cause.EXCHANGED_STATES, "returns"),
}


class Calling(InProcessRunner):
    """Calls another decoder than the reference."""

    version = "1"

    def __init__(self, reference: KerasReference, model: Any) -> None:
        super().__init__(RuntimeSpec("calling", "onnx", "-", "numpy", "-"), None, None)
        self.inputs = reference.inputs
        self._predict: Callable[[Mapping[str, Any]], Any] = lambda inputs: reference.predict(model, inputs)

    def load(self, path: Any = None, spec: Any = None) -> None:
        pass

    def run(self, inputs: Mapping[str, Any]) -> Any:
        return self._predict(inputs)


def findings(decoder: Decoder, faulty: Decoder) -> list[Finding]:
    """Returns the findings on a faulty decoder in three cases, with the reference that is sound."""
    reference = KerasReference(decoder, decoder.artifact_signature)
    cases = []
    for seed, (batch, length, past) in enumerate(((2, 3, 5), (3, 1, 12), (2, 12, 4))):
        names = ("batch_size", "sequence_length", "past_sequence_length", "total_sequence_length")
        sizes = dict(zip(names, (batch, length, past, past + length), strict=True))
        arrays = draw_case(reference.inputs, {}, sizes, seed)
        rng = np.random.default_rng(seed)
        arrays["input_ids"] = rng.integers(0, decoder.vocabulary_size, (batch, length))
        arrays["attention_mask"] = rng.integers(0, 2, (batch, past + length))
        cases.append(Case(f"past {past}", arrays, "", sizes))
    runner = Calling(reference, faulty)
    run = run_cases(runner, runner.spec, None, reference, [*reference.answer(tuple(cases))])
    if run.result.passed:
        return []
    probe = Probe(run, runner, reference)
    return [*cache_at_fault(probe)] or [*state_at_fault(probe)]


@pytest.mark.slow
def test_a_fault_of_positions_or_of_the_mask_has_its_cause() -> None:
    sound = with_cache_as_arguments(own_decoder())
    assert findings(sound, sound) == []
    for fault, (cause, word) in FAULTS.items():
        faulty = Decoder(own_decoder(fault), sound.cache_shapes, sound.vocabulary_size, name=sound.name)
        found = findings(sound, faulty)
        assert [(each.cause, word in each.evidence) for each in found] == [(cause, True)], fault


@pytest.mark.slow
def test_keys_that_are_rotated_again_have_their_cause() -> None:
    sound = with_cache_as_arguments(own_decoder(kind=RotaryDecoder))
    fault = own_decoder("keys turned again", RotaryDecoder)
    faulty = Decoder(fault, sound.cache_shapes, sound.vocabulary_size, name=sound.name)
    (found,) = findings(sound, faulty)
    assert (found.cause, "numbers of their columns" in found.evidence) == (Cause.START_INDEX_OFF, True)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "count"), [("Llama", 2), ("GPTNeoX", 2), ("GPT2", 0)])
def test_the_rotation_of_keys_follows_from_calls_of_the_model(family: str, count: int) -> None:
    decoder = with_cache_as_arguments(language_model(family))
    matrices = _rotations(decoder)
    assert len(matrices) == count
    layers = [each for each in decoder._flatten_layers() if hasattr(each, "_compute_cos_sin_embedding")]
    for layer, matrix in zip(layers, matrices, strict=True) if family == "Llama" else ():
        keys = np.random.default_rng(0).normal(size=(2, 1, 1, len(matrix))).astype("float32")
        np.testing.assert_allclose(layer(keys, start_index=1), keys @ matrix.T, atol=1e-4)


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize(("window", "word"), [(9, "more"), (7, "less"), (None, "without")])
def test_another_window_has_its_cause(window: int | None, word: str) -> None:
    sound = with_cache_as_arguments(language_model("Mistral"))
    model = language_model("Mistral")
    for layer in model.backbone.transformer_layers:
        layer.sliding_window = window
    faulty = Decoder(model, sound.cache_shapes, sound.vocabulary_size, name=sound.name)
    (found,) = findings(sound, faulty)
    assert (found.cause, word in found.evidence) == (Cause.attribute("window"), True)
