"""keras-hub's backbones of images, sounds and texts together, at a fraction of their size."""

import functools
from collections.abc import Callable
from typing import Any

import keras
import keras_hub

from keras_pe.export.records import TensorInfo
from tests.export.hub import images, texts
from tests.export.hub.recipe import VOCABULARY, Recipe

_SIZE = 16  # the side of an image
_SHAPE = (_SIZE, _SIZE, 3)
_VISION = {"patch_size": 4, "hidden_dim": 8, "num_layers": 2, "num_heads": 2, "intermediate_dim": 16}
_IMAGES = _VISION | {"image_shape": _SHAPE}
_GEMMA = texts.CONFIGS["Gemma"] | {"image_size": _SIZE}
_GEMMA_4 = _GEMMA | {"num_layers": 4, "sliding_window_pattern": 2, "sliding_window_size": 5}
_AUDIO_3N = {
    "hidden_size": 8,
    "input_feat_size": 16,
    "sscp_conv_channel_size": [4, 8],
    "sscp_conv_kernel_size": [(3, 3), (3, 3)],
    "sscp_conv_stride_size": [(2, 2), (2, 2)],
    "sscp_conv_group_norm_eps": 1e-5,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-6,
    "gradient_clipping": 1.0,
    "residual_weight": 0.5,
    "num_attention_heads": 2,
    "attention_chunk_size": 4,
    "num_attention_context_right": 2,
    "num_attention_context_left": 5,
    "attention_logit_cap": 50.0,
    "conv_kernel_size": 3,
    "reduction_factor": 1,
}
_GEMMA_3N = {
    "text_vocab_size": VOCABULARY,
    "text_hidden_size": 16,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": [32, 32],
    "hidden_activation": "gelu_approximate",
    "layer_types": ["sliding_attention", "full_attention"],
    "sliding_window": 5,
    "rope_theta": 1e4,
    "max_position_embeddings": 512,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 4,
    "altup_num_inputs": 2,
    "laurel_rank": 2,
    "vision_vocab_offset": VOCABULARY,
    "vision_vocab_size": 8,
    "audio_vocab_offset": VOCABULARY + 8,
    "audio_vocab_size": 8,
}


# An image is as many steps of the sequence as it has pooled patches.
_ONE_IMAGE = {name: keras.InputSpec(shape=(None, None)) for name in ("token_ids", "padding_mask", "vision_mask")}
_ONE_IMAGE["images"] = keras.InputSpec(shape=(None, 1, *_SHAPE))
_ONE_IMAGE["vision_indices"] = keras.InputSpec(shape=(None, 4))

_ONE_IMAGE_IN_PATCHES = {name: spec for name, spec in _ONE_IMAGE.items() if name != "images"} | {
    "position_ids": keras.InputSpec(shape=(None, None)),
    "pixel_values": keras.InputSpec(shape=(None, 1, 16, 48)),
    "pixel_position_ids": keras.InputSpec(shape=(None, 1, 16, 2)),
}


# SAM 3 looks at its boxes within a branch, where no size is inferred: that there is a label for each must be said. Its
# mask of boxes is added to one of images by images: keras-hub 0.32 runs it on one image, or on one more than boxes.
_BOXES_WITH_LABELS = {
    name: TensorInfo(name, (1, *shape), dtype)
    for name, shape, dtype in (
        ("pixel_values", (56, 56, 3), "float32"),
        ("token_ids", ("length",), "int32"),
        ("padding_mask", ("length",), "int32"),
        ("boxes", ("boxes", 5), "float32"),
        ("box_labels", ("boxes",), "int32"),
    )
}


def _model(name: str, **config: Any) -> Any:
    return getattr(keras_hub.models, name)(**config)


def _model_maker(name: str, **config: Any) -> Callable[[], Any]:
    return functools.partial(_model, name, **config)


def clip(family: str, **config: Any) -> Any:
    """Returns a model of images and texts of CLIP's, MetaCLIP2's or SigLIP's family."""
    vision = _model(f"{family}VisionEncoder", **_IMAGES)
    text = _model(f"{family}TextEncoder", **texts.CLIP_TEXT | {"hidden_dim": 8, "embedding_dim": 8})
    return _model(f"{family}Backbone", vision_encoder=vision, text_encoder=text, **config)


def blip2(language: str, **config: Any) -> Any:
    """Returns BLIP-2 with a language model, OPT or Flan-T5."""
    hub = keras_hub.models
    vision = hub.BLIP2VisionEncoder(
        image_size=_SIZE,
        **_VISION,
        use_patch_bias=True,
        use_class_token=True,
        use_mha_bias=True,
        use_mlp_bias=True,
        dropout_rate=0.0,
        layer_norm_epsilon=1e-6,
        initializer_range=0.02,
    )
    return hub.BLIP2Backbone(vision, _qformer(), _model(language, **_LANGUAGE, **config))


_LANGUAGE = texts.CONFIGS["Bart"] | {"num_query_tokens": 3, "qformer_hidden_dim": 8, "dropout": 0.0}


def _qformer() -> Any:
    return keras_hub.models.BLIP2QFormer(
        num_query_tokens=3,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        vision_dim=8,
        cross_attention_frequency=2,
        dropout=0.0,
        layer_norm_epsilon=1e-6,
    )


def gemma3_of_images() -> Any:
    """Returns Gemma 3 of texts and images."""
    encoder = keras_hub.models.Gemma3VisionEncoder(_SIZE, output_dim=16, pool_size=2, **_VISION)
    return keras_hub.models.Gemma3Backbone(vision_encoder=encoder, **_GEMMA)


def gemma4_of_images() -> Any:
    """Returns Gemma 4 of texts and images."""
    encoder = keras_hub.models.Gemma4VisionEncoder(_SIZE, head_dim=4, output_dim=16, pool_size=2, **_VISION)
    return keras_hub.models.Gemma4Backbone(vision_encoder=encoder, **_GEMMA_4)


def gemma3n_of_sounds() -> Any:
    """Returns Gemma 3n of texts and sounds."""
    from keras_hub.src.models.gemma3n.gemma3n_audio_encoder import Gemma3nAudioEncoder  # it is not in the public face

    encoder = Gemma3nAudioEncoder(**_AUDIO_3N)
    return _model("Gemma3nBackbone", **_GEMMA_3N, audio_encoder_config=encoder.get_config(), audio_hidden_size=8)


def parseq() -> Any:
    """Returns PARSeq, which reads the text in an image."""
    config = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16, "mlp_dim": 32, "patch_size": (4, 8)}
    encoder = _model("ViTBackbone", image_shape=(16, 32, 3), use_class_token=False, **config)
    return keras_hub.models.PARSeqBackbone(encoder, VOCABULARY, 9, 16, 1, 2, 32)


def sam() -> Any:
    """Returns Segment Anything."""
    encoder = _model("ViTDetBackbone", **images.VIT_DET)
    prompts = keras_hub.layers.SAMPromptEncoder(
        hidden_size=8, image_embedding_size=(4, 4), input_image_size=(32, 32), mask_in_channels=8
    )
    masks = keras_hub.layers.SAMMaskDecoder(
        num_layers=2,
        hidden_size=8,
        intermediate_dim=16,
        num_heads=2,
        embedding_dim=8,
        num_multimask_outputs=3,
        iou_head_depth=2,
        iou_head_hidden_dim=8,
    )
    return keras_hub.models.SAMBackbone(encoder, prompts, masks)


def sam3() -> Any:
    """Returns Segment Anything 3."""
    layers = keras_hub.layers
    shape, common = (56, 56, 3), {"hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2}
    return keras_hub.models.SAM3PromptableConceptBackbone(
        vision_encoder=layers.SAM3VisionEncoder(
            image_shape=shape,
            patch_size=14,
            num_layers=2,
            fpn_hidden_dim=16,
            fpn_scale_factors=[4.0, 2.0, 1.0, 0.5],
            pretrain_image_shape=(28, 28, 3),
            window_size=2,
            global_attn_indexes=[1],
            **common,
        ),
        text_encoder=layers.SAM3TextEncoder(
            vocabulary_size=VOCABULARY, embedding_dim=16, num_layers=2, max_sequence_length=64, **common
        ),
        geometry_encoder=layers.SAM3GeometryEncoder(num_layers=1, roi_size=3, **common),
        detr_encoder=layers.SAM3DetrEncoder(num_layers=1, **common),
        detr_decoder=layers.SAM3DetrDecoder(image_shape=shape, patch_size=14, num_layers=1, num_queries=5, **common),
        mask_decoder=layers.SAM3MaskDecoder(num_upsampling_stages=3, hidden_dim=16, num_heads=2),
    )


def stable_diffusion(steps: int | None = 4) -> Any:
    """Returns Stable Diffusion 3, its scheduler set to a number of steps as in keras-hub's own generation, or not."""
    from keras_hub.src.models.vae.vae_backbone import VAEBackbone  # it is not in the public face

    hub = keras_hub.models
    vae = VAEBackbone(
        encoder_num_filters=[32, 32, 32, 32],
        encoder_num_blocks=[1, 1, 1, 1],
        decoder_num_filters=[32, 32, 32, 32],
        decoder_num_blocks=[1, 1, 1, 1],
    )
    text = texts.CLIP_TEXT | {"intermediate_output_index": 0}
    model = hub.StableDiffusion3Backbone(
        mmdit_patch_size=2,
        mmdit_hidden_dim=16,
        mmdit_num_layers=2,
        mmdit_num_heads=2,
        mmdit_position_size=8,
        mmdit_qk_norm=None,
        mmdit_dual_attention_indices=None,
        vae=vae,
        clip_l=hub.CLIPTextEncoder(**text, name="clip_l"),
        clip_g=hub.CLIPTextEncoder(**text, intermediate_activation="gelu", name="clip_g"),
        image_shape=(64, 64, 3),
    )
    if steps:
        model.configure_scheduler(steps)
    return model


BACKBONES = {
    "BLIP2Backbone": Recipe(functools.partial(blip2, "BLIP2CustomOPT", max_sequence_length=512)),
    "BLIP2Backbone of Flan-T5": Recipe(functools.partial(blip2, "BLIP2FlanT5")),
    "CLIPBackbone": Recipe(functools.partial(clip, "CLIP", projection_dim=8)),
    "FluxBackbone": Recipe(
        _model_maker(
            "FluxBackbone",
            input_channels=8,
            hidden_size=16,
            mlp_ratio=2.0,
            num_heads=2,
            depth=1,
            depth_single_blocks=1,
            axes_dim=[2, 2, 4],
            theta=10_000,
            use_bias=True,
            guidance_embed=True,
            image_shape=(6, 8),
            text_shape=(5, 8),
            image_ids_shape=(6, 3),
            text_ids_shape=(5, 3),
            y_shape=(12,),
        )
    ),
    "Gemma3Backbone": Recipe(_model_maker("Gemma3Backbone", **_GEMMA, use_sliding_window_attention=True)),
    "Gemma3Backbone of images": Recipe(gemma3_of_images, signature=_ONE_IMAGE),
    "Gemma3nBackbone": Recipe(_model_maker("Gemma3nBackbone", **_GEMMA_3N)),
    "Gemma3nBackbone of sounds": Recipe(gemma3n_of_sounds),
    "Gemma4Backbone": Recipe(_model_maker("Gemma4Backbone", **_GEMMA_4), below={"position_ids": "length"}),
    "Gemma4Backbone of images": Recipe(
        gemma4_of_images, below={"position_ids": "length", "pixel_position_ids": 4}, signature=_ONE_IMAGE_IN_PATCHES
    ),
    "MetaCLIP2Backbone": Recipe(functools.partial(clip, "MetaCLIP2", projection_dim=8)),
    "MoonshineBackbone": Recipe(
        _model_maker(
            "MoonshineBackbone",
            vocabulary_size=VOCABULARY,
            filter_dim=16,
            encoder_num_layers=2,
            decoder_num_layers=2,
            hidden_dim=16,
            intermediate_dim=32,
            encoder_num_heads=2,
            decoder_num_heads=2,
        )
    ),
    "PARSeqBackbone": Recipe(parseq),
    "PaliGemmaBackbone": Recipe(
        _model_maker(
            "PaliGemmaBackbone",
            **_GEMMA,
            vit_patch_size=4,
            vit_num_heads=2,
            vit_hidden_dim=8,
            vit_num_layers=2,
        )
    ),
    "SAM3PromptableConceptBackbone": Recipe(sam3, shares=("boxes",), signature=_BOXES_WITH_LABELS),
    "SAMBackbone": Recipe(sam),
    "SigLIPBackbone": Recipe(
        functools.partial(clip, "SigLIP"),
        signature={"images": keras.InputSpec(shape=(None, *_SHAPE)), "token_ids": keras.InputSpec(shape=(None, 64))},
    ),
    "StableDiffusion3Backbone": Recipe(
        stable_diffusion,
        refused="'distribution_sampler' draws random numbers",  # the sampler encodes the image
        in_keras="graph input 'images' not exist",
        without_draws=("images",),  # the model makes images of latents and texts
    ),
    "VideoPrismBackbone": Recipe(
        _model_maker(
            "VideoPrismBackbone",
            num_frames=3,
            patch_size=8,
            hidden_dim=16,
            intermediate_dim=32,
            num_heads=2,
            num_spatial_layers=1,
            num_temporal_layers=1,
            num_auxiliary_layers=1,
            vocabulary_size=VOCABULARY,
            num_text_layers=1,
            image_shape=_SHAPE,
        )
    ),
    "WhisperBackbone": Recipe(
        _model_maker(
            "WhisperBackbone",
            **texts.CONFIGS["Bart"],
            num_mels=8,
            max_encoder_sequence_length=64,
            max_decoder_sequence_length=512,
        )
    ),
}
