"""keras-hub's backbones of images, at a fraction of their size."""

import functools
from collections.abc import Callable
from typing import Any

import keras_hub

from tests.export.hub.recipe import Recipe

_SHAPE = (32, 32, 3)
_TRANSFORMER = {"num_layers": 2, "num_heads": 2, "hidden_dim": 16}
_VISION = _TRANSFORMER | {"intermediate_dim": 32, "patch_size": 8, "image_shape": _SHAPE}
VIT_DET = {
    "hidden_size": 16,
    "num_layers": 2,
    "intermediate_dim": 32,
    "num_heads": 2,
    "global_attention_layer_indices": [1],
    "patch_size": 8,
    "num_output_channels": 8,
    "window_size": 2,
    "image_shape": _SHAPE,
}
_RESNET = {
    "input_conv_filters": [64],
    "input_conv_kernel_sizes": [7],
    "stackwise_num_filters": [64, 16, 16],  # it takes no other first one
    "stackwise_num_blocks": [1, 1, 1],
    "stackwise_num_strides": [1, 2, 2],
    "block_type": "basic_block",
}
_PYRAMID = _RESNET | {
    "stackwise_num_filters": [64, 16, 16, 16],
    "stackwise_num_blocks": [1, 1, 1, 1],
    "stackwise_num_strides": [1, 2, 2, 2],
}
_HGNET = {
    "depths": [1, 1, 2, 1],
    "embedding_size": 4,
    "hidden_sizes": [8, 16, 16, 16],
    "stem_channels": [3, 4, 4],
    "hidden_act": "relu",
    "use_learnable_affine_block": True,
    "stackwise_stage_filters": [[4, 4, 8, 1, 2, 3], [8, 4, 16, 1, 2, 3], [16, 8, 16, 2, 2, 5], [16, 8, 16, 1, 2, 5]],
    "apply_downsample": [False, True, True, True],
    "use_lightweight_conv_block": [False, False, True, True],
}
_MIT = {
    "layerwise_depths": [1, 1, 1, 1],
    "num_layers": 4,
    "layerwise_num_heads": [1, 2, 2, 4],
    "layerwise_sr_ratios": [8, 4, 2, 1],
    "max_drop_path_rate": 0.1,
    "layerwise_patch_sizes": [7, 3, 3, 3],
    "layerwise_strides": [4, 2, 2, 2],
    "hidden_dims": [4, 8, 12, 16],
}
_MOBILENET = {
    "stackwise_expansion": [[8, 16], [16, 16]],
    "stackwise_num_blocks": [2, 2],
    "stackwise_num_filters": [[8, 8], [12, 12]],
    "stackwise_kernel_size": [[3, 3], [5, 5]],
    "stackwise_num_strides": [[2, 1], [2, 1]],
    "stackwise_se_ratio": [[None, None], [0.25, 0.25]],
    "stackwise_activation": [["relu", "relu"], ["hard_swish", "hard_swish"]],
    "stackwise_padding": [[1, 1], [2, 2]],
    "output_num_filters": 24,
    "input_num_filters": 8,
    "depthwise_filters": 8,
    "depthwise_stride": 2,
    "depthwise_residual": False,
    "last_layer_filter": 32,
    "squeeze_and_excite": 0.5,
}
_EFFICIENT = {
    "stackwise_kernel_sizes": [3, 3, 5],
    "stackwise_num_repeats": [1, 2, 2],
    "stackwise_input_filters": [8, 8, 16],
    "stackwise_output_filters": [8, 16, 16],
    "stackwise_expansion_ratios": [1, 4, 4],
    "stackwise_squeeze_and_excite_ratios": [0.0, 0.25, 0.25],
    "stackwise_strides": [1, 2, 2],
    "stackwise_block_types": ["fused", "unfused", "cba"],
    "stackwise_force_input_filters": [0, 0, 0],
    "stackwise_nores_option": [False, False, False],
    "stackwise_width_coefficients": [1.0, 1.0, 1.0],
    "stackwise_depth_coefficients": [1.0, 1.0, 1.0],
    "num_features": 24,
}
# A convolution, an inverted bottleneck with one before and after it, and an attention over a smaller image.
_MOBILENET_V5 = {
    "stackwise_block_types": [["er"], ["uir", "mqa"]],
    "stackwise_num_blocks": [1, 2],
    "stackwise_num_filters": [[8], [16, 16]],
    "stackwise_strides": [[2], [2, 1]],
    "stackwise_act_layers": [["relu"], ["relu", "relu"]],
    "stackwise_exp_ratios": [[4.0], [2.0, 1.0]],
    "stackwise_se_ratios": [[0.0], [0.0, 0.0]],
    "stackwise_dw_kernel_sizes": [[0], [5, 3]],
    "stackwise_dw_start_kernel_sizes": [[0], [3, 0]],
    "stackwise_dw_end_kernel_sizes": [[0], [0, 0]],
    "stackwise_exp_kernel_sizes": [[3], [0, 0]],
    "stackwise_pw_kernel_sizes": [[1], [0, 0]],
    "stackwise_num_heads": [[0], [0, 2]],
    "stackwise_key_dims": [[0], [0, 8]],
    "stackwise_value_dims": [[0], [0, 8]],
    "stackwise_kv_strides": [[0], [0, 2]],
    "stackwise_use_cpe": [[False], [False, False]],
    "stem_size": 8,
    "num_features": 16,
    "msfa_output_resolution": 4,
}
_DFINE = {
    "decoder_in_channels": [16, 16],
    "encoder_hidden_dim": 16,
    "num_labels": 4,
    "num_denoising": 0,
    "learn_initial_query": False,
    "num_queries": 6,
    "anchor_image_size": (64, 64),
    "feat_strides": [16, 32],
    "num_feature_levels": 2,
    "hidden_dim": 16,
    "encoder_in_channels": [16, 16],
    "encode_proj_layers": [1],
    "num_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "num_encoder_layers": 1,
    "hidden_expansion": 0.5,
    "depth_multiplier": 0.5,
    "eval_idx": -1,
    "num_decoder_layers": 2,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 32,
    "decoder_n_points": [2, 2],
    "lqe_hidden_dim": 8,
    "num_lqe_layers": 2,
    "seed": 0,
}
_DINOV2 = _VISION | {"position_embedding_shape": (48, 48, 3), "num_register_tokens": 2}


def _model_maker(name: str, **config: Any) -> Callable[[], Any]:
    return functools.partial(getattr(keras_hub.models, name), **config)


def basnet() -> Any:
    """Returns BASNet, over images of any size."""
    return keras_hub.models.BASNetBackbone(_model_maker("ResNetBackbone", **_PYRAMID)(), 1)


def deeplab() -> Any:
    """Returns DeepLabV3 over a pyramid of features."""
    return keras_hub.models.DeepLabV3Backbone(
        _model_maker("ResNetBackbone", **_PYRAMID, image_shape=(64, 64, 3))(),
        spatial_pyramid_pooling_key="P5",
        upsampling_size=8,
        dilation_rates=[2, 3],
        low_level_feature_key="P2",
        projection_filters=8,
        image_shape=(64, 64, 3),
    )


def depth_anything() -> Any:
    """Returns Depth Anything over a DINOv2 of four layers."""
    encoder = _model_maker("DINOV2Backbone", **_DINOV2 | {"num_layers": 4, "patch_size": 4})()
    keys = ["stage1", "stage2", "stage3", "stage4"]
    return keras_hub.models.DepthAnythingBackbone(encoder, [4, 2, 1, 0.5], [4, 8, 12, 16], 8, 4, -1, feature_keys=keys)


def dfine() -> Any:
    """Returns D-FINE, without the noise that it adds in training.

    Its kernels are larger than fresh ones, or the queries that it chooses among would be alike to the last digits.
    """
    features = {"out_features": ["stage3", "stage4"], "image_shape": (64, 64, 3)}
    model = keras_hub.models.DFineBackbone(
        _model_maker("HGNetV2Backbone", **_HGNET, **features)(), **_DFINE, **features
    )
    for weight in model.trainable_variables:
        if len(weight.shape) == 4:
            weight.assign(weight * 3)
    return model


def retinanet() -> Any:
    """Returns RetinaNet's pyramid over images of any size."""
    encoder = _model_maker("ResNetBackbone", **_PYRAMID)()
    return keras_hub.models.RetinaNetBackbone(encoder, min_level=3, max_level=7, use_p5=False)


def segformer() -> Any:
    """Returns SegFormer over a MiT."""
    return keras_hub.models.SegFormerBackbone(_model_maker("MiTBackbone", **_MIT, image_shape=(64, 64, 3))(), 8)


BACKBONES = {
    "BASNetBackbone": Recipe(basnet),
    "CLIPVisionEncoder": Recipe(_model_maker("CLIPVisionEncoder", **_VISION)),
    "CSPNetBackbone": Recipe(
        _model_maker(
            "CSPNetBackbone",
            stem_filters=16,
            stem_kernel_size=3,
            stem_strides=2,
            stackwise_depth=[1, 2],
            stackwise_strides=[2, 2],
            stackwise_num_filters=[16, 32],
            block_type="dark_block",
            stage_type="csp",
            bottle_ratio=[0.5],
            expand_ratio=[2.0],
        )
    ),
    "DFineBackbone": Recipe(dfine),
    "DINOV2Backbone": Recipe(_model_maker("DINOV2Backbone", **_DINOV2)),
    "DINOV3Backbone": Recipe(_model_maker("DINOV3Backbone", **_VISION)),
    "DeepLabV3Backbone": Recipe(deeplab),
    "DeiTBackbone": Recipe(_model_maker("DeiTBackbone", **_VISION)),
    "DenseNetBackbone": Recipe(_model_maker("DenseNetBackbone", stackwise_num_repeats=[1, 2, 2], growth_rate=4)),
    "DepthAnythingBackbone": Recipe(depth_anything),
    "EfficientNetBackbone": Recipe(_model_maker("EfficientNetBackbone", **_EFFICIENT)),
    "HGNetV2Backbone": Recipe(_model_maker("HGNetV2Backbone", **_HGNET)),
    "MetaCLIP2VisionEncoder": Recipe(_model_maker("MetaCLIP2VisionEncoder", **_VISION)),
    "MiTBackbone": Recipe(_model_maker("MiTBackbone", **_MIT, image_shape=(64, 64, 3))),
    "MobileNetBackbone": Recipe(_model_maker("MobileNetBackbone", **_MOBILENET)),
    "MobileNetV5Backbone": Recipe(_model_maker("MobileNetV5Backbone", **_MOBILENET_V5, image_shape=(64, 64, 3))),
    "ResNetBackbone": Recipe(_model_maker("ResNetBackbone", **_RESNET)),
    "RetinaNetBackbone": Recipe(retinanet),
    "SegFormerBackbone": Recipe(segformer),
    "SigLIPVisionEncoder": Recipe(_model_maker("SigLIPVisionEncoder", **_VISION)),
    "SwinTransformerBackbone": Recipe(
        _model_maker(
            "SwinTransformerBackbone", image_shape=_SHAPE, embed_dim=8, depths=(2, 2), num_heads=(2, 4), window_size=4
        )
    ),
    "VGGBackbone": Recipe(
        _model_maker("VGGBackbone", stackwise_num_repeats=[1, 1, 2], stackwise_num_filters=[8, 16, 16])
    ),
    "ViTBackbone": Recipe(_model_maker("ViTBackbone", **_TRANSFORMER, mlp_dim=32, patch_size=8, image_shape=_SHAPE)),
    "ViTDetBackbone": Recipe(_model_maker("ViTDetBackbone", **VIT_DET)),
    "XceptionBackbone": Recipe(
        _model_maker("XceptionBackbone", stackwise_conv_filters=[[8, 8], [8, 16]], stackwise_pooling=[True, False])
    ),
}
