"""Images in float64 are resized in float64, and a check of resized images raises no false alarm."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.model.rebuild import exact_resizing

OLD, NEW = (45, 64), (21, 97)


def _ramps(shape: tuple[int, int]) -> np.ndarray:
    """Returns an image whose two channels are the row and the column: resized, they are the places that were read."""
    return np.stack(np.meshgrid(*(np.arange(size, dtype=np.float64) for size in shape), indexing="ij"), -1)


def _places(old: int, new: int) -> np.ndarray:
    return np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)


@pytest.mark.parametrize("rank", [3, 4])
def test_each_new_pixel_lies_where_its_center_does(rank):
    image = _ramps(OLD)[(None,) * (rank - 3)]
    with exact_resizing():
        found = tf.image.resize(image, NEW).numpy()
    expected = np.stack(np.meshgrid(*map(_places, OLD, NEW), indexing="ij"), -1)
    assert found.dtype == np.float64
    bound = 8 * max(OLD) * 2.0**-53  # a few roundings of a place, which is below the size
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=bound)


def test_places_are_nudged_by_what_float32_rounds_away():
    with exact_resizing(np.random.default_rng(0)):
        found = tf.image.resize(_ramps(OLD), NEW).numpy()
    error = np.abs(found - np.stack(np.meshgrid(*map(_places, OLD, NEW), indexing="ij"), -1)).max()
    assert 2.0**-24 < error <= max(OLD) * 2.0**-23


@pytest.mark.parametrize("options", [{"antialias": True}, {"method": "nearest"}, {"method": "bicubic"}])
def test_other_ways_of_resizing_stay_tensorflows(options):
    expected = tf.image.resize(_ramps(OLD), NEW, **options)
    with exact_resizing():
        found = tf.image.resize(_ramps(OLD), NEW, **options)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_images_in_float32_and_what_comes_afterwards_stay_tensorflows():
    narrow, usual = _ramps(OLD).astype(np.float32), tf.image.resize
    expected = tf.image.resize(narrow, NEW)
    with exact_resizing():
        np.testing.assert_array_equal(tf.image.resize(narrow, NEW), expected)
    assert tf.image.resize is usual


# At a ratio of 7 / 4 TensorFlow's positions are exact and ONNX Runtime's are not. At 45 / 21 the reverse holds.
@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [((56, 70), (32, 40)), ((45, 64), (21, 97))])
def test_a_resized_image_is_no_false_alarm(old, new, tmp_path):
    keras.utils.set_random_seed(0)
    images = keras.Input((*old, 3), name="images")
    resized = keras.layers.Resizing(*new)(images)
    model = keras.Model(images, keras.layers.Conv2D(4, 3, name="features")(resized))
    report = check_parity(model, export_onnx(model, tmp_path / "model.onnx"))
    assert report.passed, report


@pytest.mark.slow
def test_a_fault_beside_a_resized_image_is_found_alone(tmp_path):
    keras.utils.set_random_seed(0)
    images = keras.Input((56, 70, 3), name="images")
    resized = keras.layers.Resizing(32, 40, name="smaller")(images)
    model = keras.Model(images, keras.layers.Conv2D(4, 3, name="features")(resized))
    twin = keras.models.clone_model(model)
    kernel, bias = model.get_weights()
    twin.set_weights([kernel * 1.01, bias])
    report = check_parity(model, export_onnx(twin, tmp_path / "twin.onnx"), runtimes=["onnxruntime[all]"])
    found = [(finding.cause, finding.layer) for finding in report.results[0].findings]
    assert found == [("scaled values", "features")]
