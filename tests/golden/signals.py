"""Runs sinusoidal encodings of other packages and keeps what they return: writes signals.npz beside this file.

Usage (in an environment of its own, with diffusers==0.42.1, timm==1.0.31, transformers==5.23.0, segment-anything==1.0,
torch==2.13.0 and torchvision==0.28.0):
    python tests/golden/signals.py

Each array has the name of the convention that its function is: `(length, channels)`, or `(height, width, channels)`.
Other arguments than sizes are stored beside the result, as `name/matrix` and `name/positions`. A function with a dtype
argument gets float64.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

RETURNED = Path(__file__).parent / "signals.npz"
HEIGHT, WIDTH, CHANNELS = 5, 7, 24


def step_encodings() -> dict[str, Any]:
    """Returns encodings of 40 positions or time steps."""
    import torch
    from diffusers.models.embeddings import GaussianFourierProjection, get_timestep_embedding
    from transformers.models.whisper.modeling_whisper import sinusoids
    from transformers.models.xlnet.modeling_xlnet import XLNetModel

    steps, unet = torch.arange(40, dtype=torch.float64), {"flip_sin_to_cos": True, "downscale_freq_shift": 0}
    flux = get_timestep_embedding(steps / 40, 32, scale=1000.0, **unet)
    torch.manual_seed(0)
    noise, sizes = GaussianFourierProjection(16, scale=16.0, log=True), torch.linspace(0.01, 50, 40)
    distances = torch.arange(20, -20, -1.0)
    xlnet = XLNetModel.positional_embedding(distances, 1 / torch.pow(10000, torch.arange(0, 32, 2.0) / 32))
    return {
        "diffusers": get_timestep_embedding(steps, 32),
        "diffusers-unet": get_timestep_embedding(steps, 32, **unet),
        "flux": flux,
        "flux/positions": steps / 40,
        "whisper": sinusoids(40, 32),
        "transformer-xl": xlnet[:, 0],
        "transformer-xl/positions": distances,
        "ncsnpp": torch.roll(noise(sizes), 16 if noise.flip_sin_to_cos else 0, dims=1),
        "ncsnpp/matrix": noise.weight[None],
        "ncsnpp/positions": torch.log(sizes),
    }


def image_encodings() -> dict[str, Any]:
    """Returns encodings of images of 5 rows and 7 columns, but for a square one of 16."""
    import torch
    from diffusers.models.embeddings import get_2d_sincos_pos_embed, get_fourier_embeds_from_boundingbox
    from segment_anything.modeling.prompt_encoder import PositionEmbeddingRandom
    from timm.layers.pos_embed_sincos import build_fourier_pos_embed, build_sincos2d_pos_embed
    from transformers.models.dab_detr.modeling_dab_detr import DabDetrSinePositionEmbedding
    from transformers.models.deformable_detr.modeling_deformable_detr import DeformableDetrSinePositionEmbedding
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding
    from transformers.models.rt_detr.modeling_rt_detr import RTDetrSinePositionEmbedding

    grid, shape, half = (HEIGHT, WIDTH, CHANNELS), (1, 3, HEIGHT, WIDTH), CHANNELS // 2
    turn = {"normalize": True, "scale": 2 * np.pi}
    detr = DetrSinePositionEmbedding.build_sine_position_embedding
    deformable = DeformableDetrSinePositionEmbedding.build_sine_position_embedding
    rt_detr = RTDetrSinePositionEmbedding(CHANNELS)
    dab = DabDetrSinePositionEmbedding(
        SimpleNamespace(
            hidden_size=CHANNELS, temperature_height=20, temperature_width=20, sine_position_embedding_scale=None
        )
    )
    torch.manual_seed(0)
    sam = PositionEmbeddingRandom(half)
    boxes = torch.rand(1, 9, 4, dtype=torch.float64)
    sin, cos = build_fourier_pos_embed([HEIGHT, WIDTH], num_bands=CHANNELS // 4)
    mae = get_2d_sincos_pos_embed(CHANNELS, (16, 16), base_size=16, output_type="pt")
    return {
        "mae-2d": mae.reshape(16, 16, CHANNELS),
        "diffusers-2d": get_2d_sincos_pos_embed(CHANNELS, (WIDTH, WIDTH), output_type="pt").reshape(WIDTH, WIDTH, -1),
        "rt-detr-2d": rt_detr(width=WIDTH, height=HEIGHT, device=torch.device("cpu"), dtype=torch.float64).reshape(
            grid
        ),
        "timm-2d": build_sincos2d_pos_embed([HEIGHT, WIDTH], CHANNELS).reshape(grid),
        "timm-fourier-2d": torch.cat([sin, cos], dim=-1).reshape(grid),
        "detr-2d": _last(detr(shape, "cpu", torch.float64, half), grid),
        "detr-normalized-2d": _last(detr(shape, "cpu", torch.float64, half, **turn), grid),
        "deformable-detr-2d": _last(deformable(shape, "cpu", torch.float64, half, **turn), grid),
        "dab-detr-2d": _last(dab(torch.zeros(shape), torch.ones(1, HEIGHT, WIDTH)), grid),
        "sam-2d": _last(sam((HEIGHT, WIDTH)), grid),
        "sam-2d/matrix": sam.positional_encoding_gaussian_matrix,
        "gligen": get_fourier_embeds_from_boundingbox(8, boxes)[0],
        "gligen/positions": boxes[0].T,
    }


def _last(encoding: Any, grid: tuple[int, ...]) -> np.ndarray:
    """Returns the encoding of one image with its channels last."""
    array = np.asarray(encoding).reshape(np.asarray(encoding).shape[-3:] if encoding.ndim > 2 else grid)
    return np.moveaxis(array, 0, -1) if array.shape != grid else array


def main() -> None:
    """Writes the file."""
    np.savez(RETURNED, **{name: np.asarray(each) for name, each in {**step_encodings(), **image_encodings()}.items()})


if __name__ == "__main__":
    main()
