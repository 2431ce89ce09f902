"""The survey's rows of `keras.layers`, each with the weights it starts with."""

from typing import Any

import keras
import numpy as np
from keras import layers

from tests.export.onnx.survey.case import Case
from tests.export.onnx.survey.values import COUNTS, IMAGES, REAL, SIGNAL, normal

VOLUMES = normal(2, 6, 6, 6, 3)
FRAMES = normal(2, 3, 6, 6, 2)


class Together(layers.Layer):
    """Calls a layer on the list of its inputs."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def call(self, *tensors: Any) -> Any:
        return self.inner(list(tensors))


def layer(name: str, *inputs: np.ndarray, together: bool = False, static: bool = False, **config: Any) -> Case:
    """Returns the row of a layer, called on the inputs as one list if `together`."""

    def make() -> Any:
        keras.utils.set_random_seed(0)
        made = getattr(layers, name)(**{key: value() if callable(value) else value for key, value in config.items()})
        return Together(made) if together else made

    return Case(make, inputs, static)


def same(names: str, *inputs: np.ndarray, **config: Any) -> dict[str, Case]:
    """Returns the rows of layers that take the same."""
    return {name: layer(name, *inputs, **config) for name in names.split()}


CORE = {
    **same("Identity ReLU LeakyReLU ELU PReLU Softmax Flatten UnitNormalization ActivityRegularization", REAL),
    **same("Dropout AlphaDropout GaussianDropout", REAL, rate=0.5),
    "GaussianNoise": layer("GaussianNoise", REAL, stddev=1.0),
    "Activation": layer("Activation", REAL, activation="gelu"),
    **same("Dense", REAL, units=3),
    "EinsumDense": layer("EinsumDense", REAL, equation="abc,cd->abd", output_shape=(None, 4)),
    "Embedding": layer("Embedding", COUNTS, input_dim=9, output_dim=4),
    "ReversibleEmbedding": layer("ReversibleEmbedding", COUNTS, input_dim=9, output_dim=4),
    "Lambda": layer("Lambda", REAL, function=lambda: keras.ops.sin),
    "Masking": layer("Masking", REAL),
    **same("Add Subtract Multiply Average Maximum Minimum Concatenate", REAL, REAL[::-1].copy(), together=True),
    "Dot": layer("Dot", normal(4, 6), normal(4, 6), together=True, axes=-1),
    "Permute": layer("Permute", REAL, dims=(2, 1)),
    "Reshape": layer("Reshape", REAL, target_shape=(6, 3)),
    "RepeatVector": layer("RepeatVector", normal(4, 3), n=3),
    **same("BatchNormalization LayerNormalization RMSNormalization", REAL),
    "GroupNormalization": layer("GroupNormalization", REAL, groups=3),
    "SpectralNormalization": layer("SpectralNormalization", REAL, layer=lambda: layers.Dense(3)),
    "Attention": layer("Attention", REAL, REAL[::-1].copy(), together=True),
    "AdditiveAttention": layer("AdditiveAttention", REAL, REAL[::-1].copy(), together=True),
    "MultiHeadAttention": layer("MultiHeadAttention", REAL, REAL[::-1].copy(), num_heads=2, key_dim=4),
    "GroupQueryAttention": layer(
        "GroupQueryAttention", REAL, REAL[::-1].copy(), head_dim=4, num_query_heads=4, num_key_value_heads=2
    ),
    "Pipeline": layer("Pipeline", IMAGES, layers=lambda: [layers.Rescaling(2.0), layers.CenterCrop(4, 4)]),
}
RECURRENT = {
    **same("LSTM GRU SimpleRNN", REAL, units=3),
    "RNN": layer("RNN", REAL, cell=lambda: layers.LSTMCell(3)),
    "Bidirectional": layer("Bidirectional", REAL, layer=lambda: layers.GRU(3)),
    "StackedRNNCells": Case(
        lambda: layers.RNN(layers.StackedRNNCells([layers.GRUCell(3), layers.GRUCell(2)])), (REAL,)
    ),
    **same("ConvLSTM1D", normal(2, 3, 6, 2), filters=2, kernel_size=3),
    **same("ConvLSTM2D", FRAMES, filters=2, kernel_size=3),
    **same("ConvLSTM3D", normal(1, 2, 4, 4, 4, 2), filters=2, kernel_size=2),
    "GRUCell": Case(lambda: layers.RNN(layers.GRUCell(3)), (REAL,)),
    "LSTMCell": Case(lambda: layers.RNN(layers.LSTMCell(3)), (REAL,)),
    "SimpleRNNCell": Case(lambda: layers.RNN(layers.SimpleRNNCell(3)), (REAL,)),
    "TimeDistributed": layer("TimeDistributed", REAL, layer=lambda: layers.Dense(3)),
}
CONVOLUTIONS = {
    **same("Conv1D Conv1DTranspose SeparableConv1D", SIGNAL[..., None], filters=2, kernel_size=3),
    **same("Conv2D Conv2DTranspose SeparableConv2D", IMAGES, filters=2, kernel_size=3),
    **same("Conv3D Conv3DTranspose", VOLUMES, filters=2, kernel_size=3),
    "DepthwiseConv1D": layer("DepthwiseConv1D", REAL, kernel_size=2),
    "DepthwiseConv2D": layer("DepthwiseConv2D", IMAGES, kernel_size=3),
}
for _rank, _values in ((1, REAL), (2, IMAGES), (3, VOLUMES)):
    CONVOLUTIONS |= same(f"AveragePooling{_rank}D MaxPooling{_rank}D", _values, pool_size=2)
    _plain = f"GlobalAveragePooling{_rank}D GlobalMaxPooling{_rank}D"
    CONVOLUTIONS |= same(f"{_plain} UpSampling{_rank}D ZeroPadding{_rank}D Cropping{_rank}D", _values)
    CONVOLUTIONS |= same(f"SpatialDropout{_rank}D", _values, rate=0.5)
    CONVOLUTIONS |= same(f"AdaptiveAveragePooling{_rank}D AdaptiveMaxPooling{_rank}D", _values, output_size=2)
IMAGE = {
    "CenterCrop": layer("CenterCrop", IMAGES, height=4, width=5),
    "Resizing": layer("Resizing", IMAGES, height=5, width=11),
    "Rescaling": layer("Rescaling", IMAGES, scale=2.0, offset=0.5),
    "Normalization": layer("Normalization", REAL, mean=0.5, variance=2.0),
    **same("AugMix AutoContrast Equalization RandAugment", IMAGES),
    **same("ContrastLimitedAdaptiveHistogramEqualization RandomGrayscale RandomInvert", IMAGES),
    **same(
        "RandomBrightness RandomColorDegeneration RandomContrast RandomHue RandomSaturation RandomSharpness",
        IMAGES,
        factor=0.5,
    ),
    "RandomPosterization": layer("RandomPosterization", IMAGES, factor=4),
    "Solarization": layer("Solarization", IMAGES),
    **same("CutMix MixUp RandomColorJitter RandomElasticTransform RandomErasing RandomFlip", IMAGES),
    **same("RandomGaussianBlur RandomPerspective RandomShear", IMAGES),
    "RandomCrop": layer("RandomCrop", IMAGES, height=4, width=4),
    "RandomRotation": layer("RandomRotation", IMAGES, factor=0.5),
    "RandomTranslation": layer("RandomTranslation", IMAGES, height_factor=0.5, width_factor=0.5),
    "RandomZoom": layer("RandomZoom", IMAGES, height_factor=0.5),
}
FEATURES = {
    "CategoryEncoding": layer("CategoryEncoding", COUNTS, num_tokens=7),
    "Discretization": layer("Discretization", REAL, bin_boundaries=[-1.0, 0.0, 2.0]),
    "Hashing": layer("Hashing", COUNTS, num_bins=4),
    "HashedCrossing": layer("HashedCrossing", COUNTS[:, :1], COUNTS[:, 1:2], together=True, num_bins=4),
    "IntegerLookup": layer("IntegerLookup", COUNTS, vocabulary=[1, 2, 3]),
    "StringLookup": layer("StringLookup", np.array([["a"], ["z"]]), vocabulary=["a", "b"]),
    "TextVectorization": layer("TextVectorization", np.array(["a b", "z"]), vocabulary=["a", "b"]),
    "MelSpectrogram": layer("MelSpectrogram", normal(2, 512), fft_length=64, sequence_stride=32),
    "STFTSpectrogram": layer("STFTSpectrogram", normal(2, 64, 1), frame_length=16, frame_step=8, fft_length=16),
}
LAYERS = {**CORE, **RECURRENT, **CONVOLUTIONS, **IMAGE, **FEATURES}

# Classes that are not callable layers: bases, containers of other frameworks' code, cells, and layers with other
# inputs.
UNCALLED = {"Layer", "Wrapper", "InputSpec", "InputLayer", "FlaxLayer", "JaxLayer", "TorchModuleWrapper", "TFSMLayer"}
UNCALLED |= {"MaxNumBoundingBoxes"}
