"""The conventions of images and of points in space: a block of columns for each axis, side by side or mixed.

Those of images are for inputs `(batch, height, width, channels)`, whose tokens a reshape puts row after row.
"""

from keras_pe.conventions.definition import Convention
from keras_pe.conventions.schedules import doublings, last_is_longest, multiples_up_to_half, paper

_COLUMNS_FIRST = {"reverse_axes": True}

IMAGES = (
    Convention(
        "tensor2tensor-2d", "tensor2tensor 1.15.7, layers/common_attention.py, add_timing_signal_nd", "concatenated",
        last_is_longest, min_channels=8, axes=2,
    ),
    # Called emb_h there, but "here w goes first".
    Convention(
        "mae-2d", "facebookresearch/mae efb2a80, util/pos_embed.py, get_2d_sincos_pos_embed", "concatenated", paper,
        min_channels=4, axes=2, grid=_COLUMNS_FIRST,
    ),
    Convention(
        "dit-2d", "facebookresearch/DiT ed81ce2, models.py, get_2d_sincos_pos_embed", "concatenated", paper,
        min_channels=4, axes=2, grid=_COLUMNS_FIRST,
    ),
    # Its meshgrid runs over (width, height), so that its first block follows the rows of a square grid.
    Convention(
        "moco-v3-2d", "facebookresearch/moco-v3 c349e6e, vits.py, build_2d_sincos_position_embedding", "concatenated",
        paper, min_channels=4, axes=2,
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
    # Without `normalize`, which makes the positions depend on the size of the image.
    Convention(
        "detr-2d", "facebookresearch/detr 29901c5, models/position_encoding.py, PositionEmbeddingSine", "interleaved",
        paper, start_index=1, min_channels=4, axes=2,
    ),
    # The coordinates themselves stand before it there. Pixels lie from -1 to 1; `max_timescale` is the resolution.
    Convention(
        "perceiver-2d", "deepmind-research/perceiver, position_encoding.py, generate_fourier_features", "concatenated",
        multiples_up_to_half, min_channels=4, max_timescale=224.0, whole_positions=False, axes=2,
        grid={"blocks": "phase"},
    ),
    # The coordinates themselves stand before it there, which are given as three lists of positions.
    Convention(
        "nerf", "bmild/nerf 14c5556, run_nerf_helpers.py, Embedder", "interleaved", doublings, min_channels=6,
        whole_positions=False, axes=3, grid={"blocks": "phase"},
    ),
)  # fmt: skip
