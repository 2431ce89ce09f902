"""The conventions with a random matrix of directions and rates, which the caller must pass."""

from keras_pe.conventions.definition import Convention
from keras_pe.signal.coordinates import Coordinates

RANDOM_FEATURES = (
    Convention(
        "fourier-features", "tancik/fourier-feature-networks; Tancik et al., section 2", "concatenated", None,
        min_channels=2, whole_positions=False, axes=2,
    ),
    # The rows of the matrix belong to x and y. The coordinates are 2 c - 1, for centers c of pixels from 0 to 1.
    Convention(
        "sam-2d", "segment-anything 1.0, modeling/prompt_encoder.py, PositionEmbeddingRandom", "concatenated", None,
        min_channels=2, whole_positions=False, axes=2,
        grid={"reverse_axes": True, "coordinates": Coordinates(-1.0, 1.0)},
    ),
    # The positions are logarithms of the noise level.
    Convention(
        "ncsnpp", "yang-song/score_sde_pytorch, models/layerspp.py, GaussianFourierProjection", "concatenated", None,
        min_channels=2, whole_positions=False,
    ),
    Convention(
        "edm-fourier", "NVlabs/edm 008a4e5, training/networks.py, FourierEmbedding", "cosine_first", None,
        min_channels=2, whole_positions=False,
    ),
)  # fmt: skip
