"""Every backbone and task of keras-hub arrives, at sizes that its export did not look at, or is refused by name."""

from pathlib import Path
from typing import Any

import keras
import keras_hub
import numpy as np
import onnxruntime as ort
import pytest

from keras_pe.export import ExportError, export_onnx, model_signature
from keras_pe.export.model.sizes.dimensions import spread
from tests.export.hub.recipe import Recipe
from tests.export.hub.tasks import BACKBONES, TASKS, names
from tests.export.zoo.statistics import as_trained
from tests.samples import sample_cases

MODELS = {**BACKBONES, **TASKS}
SAMPLE = ("Qwen3Backbone", "CSPNetBackbone", "CLIPBackbone", "AlbertMaskedLM", "AlbertTextClassifier")  # the slow run's
# Batch, length, and how many times its least size a length is at least. Gemma 3 and 4 answer a batch of as many rows as
# an image has tokens, which is four here, otherwise than row by row.
TRIALS = ((1, 5, 1), (3, 13, 2), (7, 37, 3))
# The tolerance is a share of the largest value. Some ten layers each round to 2**-24, which sines and exponentials
# stretch. Angles of up to some hundred, as of points beside an image, are rounded to 2**-18.
TOLERANCE = 2e-4


def _parameters(is_refused: bool) -> list[Any]:
    named = [name for name, recipe in MODELS.items() if (recipe.refused is not None) == is_refused]
    return sample_cases(named, SAMPLE)


def _make_model(recipe: Recipe) -> Any:
    keras.utils.set_random_seed(0)
    return as_trained(recipe.make())


def _loaded_from_keras_own_export(model: Any, path: Path) -> ort.InferenceSession:
    model.export(path, format="onnx", verbose=False)
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.filterwarnings("ignore::UserWarning")  # keras-hub's own layers do not pass on masks
@pytest.mark.parametrize("name", _parameters(is_refused=False))
def test_a_model_agrees_with_keras_at_three_sizes(name: str, tmp_path: Path) -> None:
    recipe = MODELS[name]
    _check_agreement(_make_model(recipe), recipe, tmp_path / "model.onnx")


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name, recipe in MODELS.items() if recipe.without_draws])
def test_a_model_agrees_in_the_outputs_that_draw_no_random_numbers(name: str, tmp_path: Path) -> None:
    recipe = MODELS[name]
    model = _make_model(recipe)
    part = keras.Model(model.input, {output: model.output[output] for output in recipe.without_draws})
    _check_agreement(part, recipe, tmp_path / "model.onnx")


def _check_agreement(model: Any, recipe: Recipe, path: Path) -> None:
    signature = model_signature(model, recipe.signature, sizes=recipe.sizes)
    artifact = export_onnx(model, path, input_signature=signature)
    session = ort.InferenceSession(artifact.path, providers=["CPUExecutionProvider"])
    for number, (batch, length, factor) in enumerate(TRIALS):
        arrays = recipe.inputs(signature.inputs, spread(signature.dimensions, batch, length, factor), number)
        tensors = {name: keras.ops.convert_to_tensor(array) for name, array in arrays.items()}
        expected = signature.unpack(model(*signature.pack(tensors), training=False))
        actual = session.run(list(expected), arrays)
        for (output, value), found in zip(expected.items(), actual, strict=True):
            truth = np.asarray(value)
            finite = np.abs(truth, where=np.isfinite(truth), out=np.zeros_like(truth))
            assert finite.size > 0
            np.testing.assert_allclose(
                found, truth, rtol=0, atol=TOLERANCE * max(1e-2, finite.max()), strict=True, err_msg=output
            )


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:In the future `np.object`:FutureWarning")  # Keras' own
@pytest.mark.parametrize("name", _parameters(is_refused=True))
def test_a_refusal_says_why_and_keras_own_export_does_no_better(name: str, tmp_path: Path) -> None:
    recipe = MODELS[name]
    model = _make_model(recipe)
    with pytest.raises((ExportError, ValueError), match=recipe.refused) as caught:
        export_onnx(model, tmp_path / "model.onnx", input_signature=recipe.signature, sizes=recipe.sizes)
    assert all(repr(output) in str(caught.value) for output in recipe.without_draws)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Exception, match=recipe.in_keras):
        _loaded_from_keras_own_export(model, tmp_path / "keras.onnx")


def test_no_backbone_is_missing() -> None:
    hub = keras_hub.models
    classes = {each for each in vars(hub).values() if isinstance(each, type) and issubclass(each, hub.Backbone)}
    made = {getattr(hub, name) for name in BACKBONES if " " not in name}
    assert made == classes - {hub.Backbone, hub.FeaturePyramidBackbone}  # these classes are bases
    assert set(SAMPLE) < set(MODELS)
    assert len(made) >= 77
    assert len(names()) >= 50


def test_no_more_are_refused_than_are_known() -> None:
    refused = {name for name, recipe in MODELS.items() if recipe.refused and " " not in name}
    assert refused == {
        "Gemma4AssistantCausalLM",
        "StableDiffusion3Backbone",
        "StableDiffusion3ImageToImage",
        "StableDiffusion3Inpaint",
        "StableDiffusion3TextToImage",
    }
