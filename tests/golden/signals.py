"""Runs sinusoidal encodings of other packages and keeps what they return: writes signals.npz beside this file.

Usage (in an environment of its own, with diffusers==0.42.1, timm==1.0.31, transformers==5.23.0 and torch==2.13.0):
    python tests/golden/signals.py

Each array has the name of the convention that its function is: `(length, channels)`, or `(height, width, channels)`.
"""

from pathlib import Path

import numpy as np

RETURNED = Path(__file__).parent / "signals.npz"


def main() -> None:
    """Writes the file."""
    import torch
    from diffusers.models.embeddings import get_2d_sincos_pos_embed, get_timestep_embedding
    from timm.layers.pos_embed_sincos import build_sincos2d_pos_embed
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding
    from transformers.models.whisper.modeling_whisper import sinusoids

    steps = torch.arange(40)
    detr = DetrSinePositionEmbedding.build_sine_position_embedding((1, 3, 5, 7), "cpu", torch.float32, 12)
    np.savez(
        RETURNED,
        **{
            "diffusers": get_timestep_embedding(steps, 32).numpy(),
            "diffusers-unet": get_timestep_embedding(steps, 32, flip_sin_to_cos=True, downscale_freq_shift=0).numpy(),
            "flux": get_timestep_embedding(
                steps, 32, flip_sin_to_cos=True, downscale_freq_shift=0, scale=1000.0
            ).numpy()[:1],
            "whisper": sinusoids(40, 32).numpy(),
            "mae-2d": get_2d_sincos_pos_embed(24, (16, 16), base_size=16, output_type="pt").numpy().reshape(16, 16, 24),
            "timm-2d": build_sincos2d_pos_embed([5, 7], 24).numpy().reshape(5, 7, 24),
            "detr-2d": np.moveaxis(detr[0].numpy(), 0, -1) if detr.ndim == 4 else detr[0].numpy().reshape(5, 7, 24),
        },
    )


if __name__ == "__main__":
    main()
