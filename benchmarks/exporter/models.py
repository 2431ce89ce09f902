"""The models of the export benchmarks, each with inputs of three sizes."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
import numpy as np

from keras_pe import SinusoidalPositionEncoding

VOCABULARY, WIDTH, LAYERS, HEADS, HIDDEN, POSITIONS = 1000, 256, 4, 4, 1024, 512
IMAGE = 96  # pixels
SOUND = 512  # frames

Feeds = Mapping[str, Any]


def texts(batch: int, length: int) -> Feeds:
    """Returns tokens, and the masks that go with them, under the names that keras-hub has for them."""
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (batch, length))
    return {"token_ids": tokens, "padding_mask": np.ones_like(tokens), "segment_ids": np.zeros_like(tokens)}


def images(batch: int, size: int) -> Feeds:
    """Returns images, the channels last."""
    return {"images": _normal(batch, size, size, 3)}


def series(batch: int, length: int) -> Feeds:
    """Returns series of 32 channels."""
    return {"values": _normal(batch, length, 32)}


def sounds(batch: int, length: int) -> Feeds:
    """Returns mel spectra, and tokens that are decoded beside them."""
    tokens = texts(batch, length // 8)
    named = {f"decoder_{name}": tokens[name] for name in ("token_ids", "padding_mask")}
    return {"encoder_features": _normal(batch, length, 80), **named}


CASES: dict[Callable[[int, int], Feeds], tuple[tuple[int, int], ...]] = {
    texts: ((1, 16), (1, 128), (8, 128)),
    images: ((1, IMAGE), (2, IMAGE), (8, IMAGE)),
    series: ((1, 16), (1, 128), (8, 128)),
    sounds: ((1, SOUND), (2, SOUND), (4, SOUND)),
}


def encoder() -> keras.Model:
    """Two layers of a Transformer behind positions of this package."""
    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    x = SinusoidalPositionEncoding()(keras.layers.Embedding(VOCABULARY, WIDTH)(tokens))
    for _ in range(2):
        x = keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(4, 64)(x, x))
        hidden = keras.layers.Dense(HIDDEN, activation="relu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(WIDTH)(hidden))
    return keras.Model(tokens, x)


def tagger() -> keras.Model:
    """Two recurrent layers in both directions, and a label for each step."""
    x = values = keras.Input((None, 32), name="values")
    for _ in range(2):
        x = keras.layers.Bidirectional(keras.layers.LSTM(64, return_sequences=True))(x)
    return keras.Model(values, keras.layers.Dense(10, activation="softmax")(x))


def gru() -> keras.Model:
    """A recurrent layer of the other kind, which Keras exports as a loop."""
    values = keras.Input((None, 32), name="values")
    return keras.Model(values, keras.layers.Dense(10)(keras.layers.GRU(128)(values)))


def unet() -> keras.Model:
    """Three halvings of an image, and as many doublings, each beside the image of its size."""
    layers = keras.layers

    def block(x: Any, width: int) -> Any:
        for _ in range(2):
            x = layers.BatchNormalization()(layers.Conv2D(width, 3, padding="same", activation="relu")(x))
        return x

    x = inputs = keras.Input((IMAGE, IMAGE, 3), name="images")
    beside = []
    for width in (16, 32, 64):
        beside.append(block(x, width))
        x = layers.MaxPooling2D()(beside[-1])
    x = block(x, 128)
    for width in (64, 32, 16):
        x = layers.Conv2DTranspose(width, 2, strides=2)(x)
        x = block(layers.Concatenate()([x, beside.pop()]), width)
    return keras.Model(inputs, layers.Conv2D(2, 1, activation="softmax")(x))


def _build_hub_model(name: str, **options: Any) -> keras.Model:
    import keras_hub

    sizes = {"vocabulary_size": VOCABULARY, "num_layers": LAYERS, "hidden_dim": WIDTH, "intermediate_dim": HIDDEN}
    return getattr(keras_hub.models, f"{name}Backbone")(**{**sizes, **options})


def _build_application(name: str) -> keras.Model:
    inputs = keras.Input((IMAGE, IMAGE, 3), name="images")
    options = {"include_preprocessing": False} if name.startswith(("MobileNetV3", "ConvNeXt")) else {}
    return getattr(keras.applications, name)(input_tensor=inputs, weights=None, classes=1000, **options)


def _gemma() -> keras.Model:
    wide = {"intermediate_dim": 2 * HIDDEN}  # gates and values, half each
    return _build_hub_model("Gemma", num_query_heads=HEADS, num_key_value_heads=1, head_dim=WIDTH // HEADS, **wide)


def _vit() -> keras.Model:
    import keras_hub

    shape = {"image_shape": (IMAGE, IMAGE, 3), "patch_size": (16, 16)}
    return keras_hub.models.ViTBackbone(
        **shape, num_layers=LAYERS, num_heads=HEADS, hidden_dim=WIDTH, mlp_dim=HIDDEN, dropout_rate=0.0
    )


class Measured(NamedTuple):
    """A model to export and to run.

    Attributes:
        make: Builds the model.
        feeds: Makes what it is run on, of a batch and a size.
        opset: ONNX's operator set of its files.
        architecture: Its name where PyTorch has it.
    """

    make: Callable[[], keras.Model]
    feeds: Callable[[int, int], Feeds]
    opset: int = 18
    architecture: str = ""


_BUILDERS: dict[str, tuple[Callable[[], keras.Model], Callable[[int, int], Feeds]]] = {
    "BERT": (lambda: _build_hub_model("Bert", num_heads=HEADS, max_sequence_length=POSITIONS), texts),
    "ViT": (_vit, images),
    "GPT-2": (lambda: _build_hub_model("GPT2", num_heads=HEADS, max_sequence_length=POSITIONS), texts),
    "Gemma": (_gemma, texts),
    "Whisper": (lambda: _build_hub_model("Whisper", num_heads=HEADS), sounds),
    "ResNet50": (lambda: _build_application("ResNet50"), images),
    "MobileNetV3Small": (lambda: _build_application("MobileNetV3Small"), images),
    "EfficientNetB0": (lambda: _build_application("EfficientNetB0"), images),
    "ConvNeXtTiny": (lambda: _build_application("ConvNeXtTiny"), images),
    "U-Net": (unet, images),
    "LSTM tagger": (tagger, series),
    "GRU": (gru, series),
    "encoder": (encoder, texts),
}
MEASURED = {name: Measured(*each, architecture=name) for name, each in _BUILDERS.items()} | {
    # From the first set that has attention and rotary positions.
    f"{name} at opset 23": Measured(*_BUILDERS[name], opset=23, architecture=name)
    for name in ("BERT", "ViT", "GPT-2", "Gemma", "Whisper")
}


def build(name: str) -> keras.Model:
    """Returns a model as if trained, the same in every process: a bias of zeros would be left out of a file."""
    keras.utils.set_random_seed(0)
    make, feeds, *_ = MEASURED[name]
    model = make()
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if weight.dtype == "float32":
            weight.assign(weight + 0.05 * np.abs(rng.normal(size=weight.shape)))
    given = feeds(*CASES[feeds][0])
    model({tensor.name: given.get(tensor.name, given.get("images")) for tensor in model.inputs})
    return model


def _normal(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("float32")
