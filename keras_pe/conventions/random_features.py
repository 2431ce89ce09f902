"""The conventions that draw the directions and the rates of their waves at random: a matrix, which is given."""

from keras_pe.conventions.definition import Convention
from keras_pe.signal.coordinates import Coordinates

RANDOM_FEATURES = (
    Convention(
        "fourier-features", "tancik/fourier-feature-networks; Tancik et al., section 2", "concatenated", None,
        min_channels=2, whole_positions=False, axes=2,
    ),
    # Rows of the matrix are those of x and of y. 2 c - 1 of the centers c of pixels from 0 to 1.
    Convention(
        "sam-2d", "segment-anything 1.0, modeling/prompt_encoder.py, PositionEmbeddingRandom", "concatenated", None,
        min_channels=2, whole_positions=False, axes=2,
        grid={"reverse_axes": True, "coordinates": Coordinates(-1.0, 1.0)},
    ),
    # Logarithms of the noise's size.
    Convention(
        "ncsnpp", "yang-song/score_sde_pytorch, models/layerspp.py, GaussianFourierProjection", "concatenated", None,
        min_channels=2, whole_positions=False,
    ),
    Convention(
        "edm-fourier", "NVlabs/edm 008a4e5, training/networks.py, FourierEmbedding", "cosine_first", None,
        min_channels=2, whole_positions=False,
    ),
)  # fmt: skip
