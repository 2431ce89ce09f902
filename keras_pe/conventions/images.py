"""The conventions of images: a block of columns for each axis, side by side or mixed.

Each is for inputs `(batch, height, width, channels)`, whose tokens a reshape puts row after row.
"""

from keras_pe.conventions.definition import Convention
from keras_pe.conventions.schedules import last_is_longest, paper

_COLUMNS_FIRST = {"reverse_axes": True}

IMAGES = (
    Convention(
        "tensor2tensor-2d", "tensor2tensor 1.15.7, layers/common_attention.py, add_timing_signal_nd", "concatenated",
        last_is_longest, min_channels=8, grid={},
    ),
    # Called emb_h there, but "here w goes first".
    Convention(
        "mae-2d", "facebookresearch/mae efb2a80, util/pos_embed.py, get_2d_sincos_pos_embed", "concatenated", paper,
        min_channels=4, grid=_COLUMNS_FIRST,
    ),
    Convention(
        "dit-2d", "facebookresearch/DiT ed81ce2, models.py, get_2d_sincos_pos_embed", "concatenated", paper,
        min_channels=4, grid=_COLUMNS_FIRST,
    ),
    # Its meshgrid runs over (width, height), so that its first block follows the rows of a square grid.
    Convention(
        "moco-v3-2d", "facebookresearch/moco-v3 c349e6e, vits.py, build_2d_sincos_position_embedding", "concatenated",
        paper, min_channels=4, grid={},
    ),
    Convention(
        "rt-detr-2d", "transformers 5.23.0, models/rt_detr_v2/modeling_rt_detr_v2.py", "concatenated", paper,
        min_channels=4, grid={},
    ),
    Convention(
        "big-vision-2d", "google-research/big_vision 0127fb6, models/vit.py, posemb_sincos_2d", "concatenated",
        last_is_longest, min_channels=8, grid=_COLUMNS_FIRST,
    ),
    Convention(
        "timm-2d", "timm 1.0.31, layers/pos_embed_sincos.py, build_sincos2d_pos_embed", "concatenated", paper,
        min_channels=4, grid={"blocks": "phase"},
    ),
    # Without `normalize`, which makes the positions depend on the size of the image.
    Convention(
        "detr-2d", "facebookresearch/detr 29901c5, models/position_encoding.py, PositionEmbeddingSine", "interleaved",
        paper, start_index=1, min_channels=4, grid={},
    ),
)  # fmt: skip
