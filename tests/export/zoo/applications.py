"""`keras.applications`: every constructor, with a head and images of one size, or without one and any size."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from keras_pe.export.model.rebuild import with_dtype
from tests.export.zoo.statistics import as_trained_on

NAMES = (
    *("ConvNeXtTiny", "ConvNeXtSmall", "ConvNeXtBase", "ConvNeXtLarge", "ConvNeXtXLarge"),
    *("DenseNet121", "DenseNet169", "DenseNet201"),
    *(f"EfficientNetB{number}" for number in range(8)),
    *("EfficientNetV2B0", "EfficientNetV2B1", "EfficientNetV2B2", "EfficientNetV2B3"),
    *("EfficientNetV2S", "EfficientNetV2M", "EfficientNetV2L"),
    *("InceptionResNetV2", "InceptionV3"),
    *("MobileNet", "MobileNetV2", "MobileNetV3Small", "MobileNetV3Large"),
    *("NASNetMobile", "NASNetLarge"),
    *("ResNet50", "ResNet101", "ResNet152", "ResNet50V2", "ResNet101V2", "ResNet152V2"),
    *("VGG16", "VGG19"),
    "Xception",
)


@dataclass(frozen=True)
class Refusal:
    """A model that is not exported.

    Attributes:
        reason: The text of the refusal.
        by_keras: The result of Keras' own export of the same model, as it is made.
    """

    reason: str
    by_keras: str


# Keras 3.15 pads the reductions of a NASNet for images of any size as if all sides were even, where some are odd. Keras
# makes the model and calls it at no size.
_UNEVEN = Refusal("cannot be called on zeros.* Dimensions must be equal", "The model provided has never called")
REFUSED = {("NASNetMobile", "free"): _UNEVEN, ("NASNetLarge", "free"): _UNEVEN}
SIDE = 96  # pixels, which all of them take

# Batch, height and width of each trial: never traced, and the batch unlike the others.
TRIALS = {
    "fixed": ((1, SIDE, SIDE), (4, SIDE, SIDE), (5, SIDE, SIDE)),
    "free": ((2, 101, 147), (1, 128, 99), (3, 160, 224)),
}
# The images that provide the statistics of a trained model. The last layers of the deep models see nine positions of
# such an image, too few for statistics that suit other images. These layers then stretch values and rounding errors ten
# thousand times.
IMAGES = (8, SIDE, SIDE)
MORE_IMAGES = {
    **{(f"EfficientNetB{number}", "free"): (8, 160, 224) for number in (4, 5, 6, 7)},
    **{(f"EfficientNetV2{size}", "free"): (8, 160, 224) for size in "ML"},
    **{(f"EfficientNetV2{size}", "fixed"): (48, SIDE, SIDE) for size in "ML"},
}
# The tolerance is a share of the largest value. Some hundreds of layers each round once, to 2**-24, and their errors
# add up like a random walk. The normalizations stretch the walk by at most a few times, to far below this tolerance.
# The error of ONNX Runtime's other order of the sums is as small.
TOLERANCE = 2e-4
OWN_ERRORS = 8  # times Keras' own error, as in the parity check
ATTEMPTS = 4  # at images that tell something
COARSE = 0.05  # a share of the largest value, as before publishing: a larger error says nothing of the model


def build(name: str, kind: str) -> keras.Model:
    """Returns a model with random weights.

    Args:
        name: One of NAMES.
        kind: "fixed" for images of one size and a head of ten classes, "free" for images of any size and no head.
    """
    keras.utils.set_random_seed(0)
    head: dict[str, Any] = {"include_top": True, "classes": 10, "classifier_activation": None}
    options = head if kind == "fixed" else {"include_top": False, "pooling": "avg"}
    side = SIDE if kind == "fixed" else None
    model: keras.Model = getattr(keras.applications, name)(weights=None, input_shape=(side, side, 3), **options)
    return model


def make(name: str, kind: str) -> keras.Model:
    """Returns the same with the statistics of a trained one."""
    images = _images(MORE_IMAGES.get((name, kind), IMAGES))
    model: keras.Model = as_trained_on(build(name, kind), images)
    return model


def compare(model: keras.Model, run: Callable[[np.ndarray], np.ndarray], kind: str) -> None:
    """Raises AssertionError unless what runs a model's file returns what the model does in every trial.

    A model that stretches rounding further is judged as the parity check judges: by its own error to the same model in
    float64. Images to which it answers mostly noise tell nothing, and others are drawn.
    """
    for trial in TRIALS[kind]:
        assert any(_agrees(model, run, _images(trial, attempt)) for attempt in range(ATTEMPTS)), "noise throughout"


def _agrees(model: keras.Model, run: Callable[[np.ndarray], np.ndarray], images: np.ndarray) -> bool:
    """Returns whether these images tell anything; raises AssertionError if they tell that there is a difference."""
    expected, actual = np.asarray(model(images, training=False)), run(images)
    largest = np.abs(expected).max()
    assert 0 < largest < np.inf
    allowed = TOLERANCE * largest
    if not np.abs(actual - expected).max() <= allowed:
        truth = np.asarray(with_dtype(model, "float64")(images.astype("float64"), training=False), "float32")
        allowed, expected = OWN_ERRORS * np.abs(expected - truth).max(), truth
        if not allowed < COARSE * largest:
            return False
    np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed, strict=True)
    return True


def _images(trial: tuple[int, int, int], attempt: int = 0) -> np.ndarray:
    seed = trial[0] + 100 * attempt
    return np.random.default_rng(seed).uniform(0, 255, (*trial, 3)).astype("float32")
