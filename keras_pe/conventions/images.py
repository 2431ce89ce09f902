"""The conventions of images, of points in space and of boxes: a block of columns for each axis, or mixed blocks.

Conventions of images take inputs `(batch, height, width, channels)`, whose tokens a reshape orders row by row.
"""

import math

from keras_pe.conventions.definition import Convention
from keras_pe.conventions.schedules import (
    doublings,
    growing,
    half_turns_up_to_half,
    last_is_longest,
    multiples_up_to_half,
    paper,
)
from keras_pe.signal.coordinates import Coordinates

_COLUMNS_FIRST = {"reverse_axes": True}
# The codebase makes the table column by column, but adds it to tokens in row order.
_TRANSPOSED = {"reverse_axes": True, "flatten": "columns"}
_TURN = 2 * math.pi

IMAGES = (
    Convention(
        "tensor2tensor-2d", "tensor2tensor 1.15.7, layers/common_attention.py, add_timing_signal_nd", "concatenated",
        last_is_longest, min_channels=8, axes=2,
    ),
    # The codebase calls the first block emb_h, but notes "here w goes first".
    Convention(
        "mae-2d", "facebookresearch/mae efb2a80, util/pos_embed.py, get_2d_sincos_pos_embed", "concatenated", paper,
        min_channels=4, axes=2, grid=_COLUMNS_FIRST,
    ),
    Convention(
        "dit-2d", "facebookresearch/DiT ed81ce2, models.py, get_2d_sincos_pos_embed", "concatenated", paper,
        min_channels=4, axes=2, grid=_COLUMNS_FIRST,
    ),
    Convention(
        "moco-v3-2d", "facebookresearch/moco-v3 c349e6e, vits.py, build_2d_sincos_position_embedding", "concatenated",
        paper, min_channels=4, axes=2, grid=_TRANSPOSED,
    ),
    Convention(
        "d-fine-2d", "keras-hub 0.32.0, models/d_fine/d_fine_hybrid_encoder.py, as RT-DETR's own code", "concatenated",
        paper, min_channels=4, axes=2, grid=_TRANSPOSED,
    ),
    # The coordinates of an image of any size go from 0 to 16 (`base_size`). Divide `high` by `interpolation_scale`.
    Convention(
        "diffusers-2d", "diffusers 0.42.1, models/embeddings.py, get_2d_sincos_pos_embed", "concatenated", paper,
        min_channels=4, axes=2, grid={"reverse_axes": True, "coordinates": Coordinates(0.0, 16.0, "starts")},
    ),
    Convention(
        "rt-detr-2d", "transformers 5.23.0, models/rt_detr_v2/modeling_rt_detr_v2.py", "concatenated", paper,
        min_channels=4, axes=2,
    ),
    Convention(
        "big-vision-2d", "google-research/big_vision 0127fb6, models/vit.py, posemb_sincos_2d", "concatenated",
        last_is_longest, min_channels=8, axes=2, grid=_COLUMNS_FIRST,
    ),
    Convention(
        "timm-2d", "timm 1.0.31, layers/pos_embed_sincos.py, build_sincos2d_pos_embed", "concatenated", paper,
        min_channels=4, axes=2, grid={"blocks": "phase"},
    ),
    Convention(
        "positional-encodings-2d", "positional-encodings 6.0.3, tf_encodings.py, TFPositionalEncoding2D",
        "interleaved", paper, min_channels=4, axes=2,
    ),
    # With the function's default, without `normalize`.
    Convention(
        "detr-2d", "facebookresearch/detr 29901c5, models/position_encoding.py, PositionEmbeddingSine", "interleaved",
        paper, start_index=1, min_channels=4, axes=2,
    ),
    # With `normalize`, as in DETR, MaskFormer, Mask2Former, SAM 2 and SAM 3.
    Convention(
        "detr-normalized-2d", "facebookresearch/detr 29901c5, models/position_encoding.py, PositionEmbeddingSine",
        "interleaved", paper, min_channels=4, axes=2, grid={"coordinates": Coordinates(0.0, _TURN, "ends", 1e-6)},
    ),
    Convention(
        "deformable-detr-2d", "transformers 5.23.0, models/deformable_detr/modeling_deformable_detr.py", "interleaved",
        paper, min_channels=4, axes=2, grid={"coordinates": Coordinates(0.0, _TURN, "centers", 1e-6)},
    ),
    Convention(
        "dab-detr-2d", "transformers 5.23.0, models/dab_detr/modeling_dab_detr.py, DabDetrSinePositionEmbedding",
        "interleaved", paper, min_channels=4, max_timescale=20.0, axes=2,
        grid={"coordinates": Coordinates(0.0, _TURN, "ends", 1e-6)},
    ),
    # The codebase puts the coordinates themselves before the signal. `max_timescale` is the resolution.
    Convention(
        "perceiver-2d", "deepmind-research/perceiver, position_encoding.py, generate_fourier_features", "concatenated",
        multiples_up_to_half, min_channels=4, max_timescale=224.0, axes=2,
        grid={"blocks": "phase", "coordinates": Coordinates(-1.0, 1.0, "edges")},
    ),
    Convention(
        "timm-fourier-2d", "timm 1.0.31, layers/pos_embed_sincos.py, build_fourier_pos_embed", "concatenated",
        half_turns_up_to_half, min_channels=4, max_timescale=224.0, axes=2,
        grid={"coordinates": Coordinates(-1.0, 1.0, "edges")},
    ),
    # The codebase puts the coordinates themselves before the signal. Pass them as three lists of positions.
    Convention(
        "nerf", "bmild/nerf 14c5556, run_nerf_helpers.py, Embedder", "interleaved", doublings, min_channels=6,
        whole_positions=False, axes=3, grid={"blocks": "phase"},
    ),
    # The positions are the four corners of a box, from 0 to 1. `max_timescale` is the temperature.
    Convention(
        "gligen", "diffusers 0.42.1, models/embeddings.py, get_fourier_embeds_from_boundingbox", "interleaved", growing,
        min_channels=8, max_timescale=100.0, whole_positions=False, axes=4, grid={"blocks": "phase"},
    ),
)  # fmt: skip
