"""The conventions of diffusion models, which encode time steps, and of audio and video models."""

import math

from keras_pe.conventions.definition import Convention
from keras_pe.conventions.schedules import last_is_longest, paper, paper_of_fractions, paper_of_pairs, turns_up_to

TIMESTEPS = (
    Convention(
        "ddpm", "hojonathanho/diffusion, diffusion_tf/nn.py, get_timestep_embedding", "concatenated", last_is_longest,
        min_channels=4, odd_channels=True,
    ),
    Convention(
        "score-sde", "yang-song/score_sde_pytorch, models/layers.py, get_timestep_embedding", "concatenated",
        last_is_longest, min_channels=4, odd_channels=True,
    ),
    # With flip_sin_to_cos=False and downscale_freq_shift=1, the defaults of the function.
    Convention(
        "diffusers", "diffusers 0.42.1, models/embeddings.py, get_timestep_embedding", "concatenated", last_is_longest,
        min_channels=4, odd_channels=True,
    ),
    # With flip_sin_to_cos=True and downscale_freq_shift=0, as in its U-Nets and most of its transformers.
    Convention(
        "diffusers-unet", "diffusers 0.42.1, models/unets/unet_2d_condition.py", "cosine_first", paper_of_pairs,
        min_channels=2, odd_channels=True,
    ),
    Convention(
        "openai-diffusion", "openai/improved-diffusion, improved_diffusion/nn.py, timestep_embedding", "cosine_first",
        paper_of_pairs, min_channels=2, odd_channels=True,
    ),
    Convention(
        "latent-diffusion", "CompVis/stable-diffusion, ldm/modules/diffusionmodules/util.py, timestep_embedding",
        "cosine_first", paper_of_pairs, min_channels=2, odd_channels=True,
    ),
    Convention(
        "dit", "facebookresearch/DiT ed81ce2, models.py, TimestepEmbedder", "cosine_first", paper_of_pairs,
        min_channels=2, odd_channels=True,
    ),
    Convention(
        "stable-diffusion-3", "keras-hub 0.32.0, stable_diffusion_3/mmdit.py, TimestepEmbedding", "cosine_first", paper,
        min_channels=2,
    ),
    # The time steps go from 0 to 1.
    Convention(
        "flux", "black-forest-labs/flux, modules/layers.py, timestep_embedding", "cosine_first", paper_of_fractions,
        min_channels=2, whole_positions=False,
    ),
    Convention(
        "edm-adm", "NVlabs/edm 008a4e5, training/networks.py, PositionalEmbedding(endpoint=False)", "cosine_first",
        paper, min_channels=2,
    ),
    # PositionalEmbedding(endpoint=True) returns the cosines first, and SongUNet exchanges the halves.
    Convention(
        "edm-ddpmpp", "NVlabs/edm 008a4e5, training/networks.py, SongUNet", "concatenated", last_is_longest,
        min_channels=4,
    ),
    # The positions are noise variances from 0 to 1.
    Convention(
        "keras-ddim", "keras.io, examples/generative/ddim, sinusoidal_embedding", "concatenated", turns_up_to,
        min_channels=4, max_timescale=1.0e3, whole_positions=False,
    ),
    Convention(
        "mlx", "mlx, nn/layers/positional_encoding.py, SinusoidalPositionalEncoding", "concatenated", last_is_longest,
        min_channels=4, scale=lambda channels: math.sqrt(2 / channels),
    ),
    Convention(
        "whisper", "transformers 5.23.0, models/whisper/modeling_whisper.py, sinusoids", "concatenated",
        last_is_longest, min_channels=4,
    ),
    Convention(
        "video-prism", "keras-hub 0.32.0, models/video_prism/video_prism_layers.py, SinusoidalPositionalEmbedding",
        "concatenated", last_is_longest, min_channels=4, odd_channels=True,
    ),
    Convention(
        "musicgen", "audiocraft, modules/transformer.py, create_sin_embedding; transformers, modeling_musicgen.py",
        "cosine_first", last_is_longest, min_channels=4,
    ),
    # The positions are distances in descending order: length - 1, ..., -length. The caller passes them.
    Convention(
        "transformer-xl", "keras-hub 0.32.0, models/xlnet/xlnet_encoder.py; transformers, modeling_xlnet.py",
        "concatenated", paper, min_channels=2, whole_positions=False, descending=True,
    ),
    Convention(
        "conformer", "transformers 5.23.0, modeling_wav2vec2_conformer.py, Wav2Vec2ConformerRelPositionalEmbedding",
        "interleaved", paper, min_channels=2, whole_positions=False, descending=True,
    ),
    Convention(
        "gemma-audio", "keras-hub 0.32.0, models/gemma4/gemma4_audio_encoder.py, of distances", "concatenated",
        last_is_longest, min_channels=4, whole_positions=False, descending=True,
    ),
)  # fmt: skip
