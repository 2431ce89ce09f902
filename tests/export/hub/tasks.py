"""keras-hub's tasks, each over its small backbone."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import keras_hub

from tests.export.hub import images, texts, together
from tests.export.hub.recipe import Recipe

BACKBONES = {**texts.BACKBONES, **images.BACKBONES, **together.BACKBONES}
_CLASSES = {"num_classes": 3}
# Arguments of a task besides its backbone.
_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "BASNetImageSegmenter": {},
    "BLIP2CausalLM": {"preprocessor": None},
    "DepthAnythingDepthEstimator": {"depth_estimation_type": "relative"},
    "FluxTextToImage": {"preprocessor": None},
    "Gemma3CausalLM": {"preprocessor": None},
    "Gemma3nCausalLM": {"preprocessor": None},
    "Gemma4AssistantCausalLM": {
        "backbone_hidden_size": 16,
        "num_centroids": 3,
        "centroid_intermediate_top_k": 2,
        "use_ordered_embeddings": False,
    },
    "Gemma4CausalLM": {"preprocessor": None},
    "HGNetV2ImageClassifier": _CLASSES | {"preprocessor": None},
    "MobileNetImageClassifier": _CLASSES | {"num_features": 16},
    "MobileNetV5ImageClassifier": _CLASSES | {"head_hidden_size": 16},
    "PARSeqCausalLM": {
        "preprocessor": keras_hub.models.PARSeqCausalLMPreprocessor(tokenizer=keras_hub.tokenizers.PARSeqTokenizer())
    },
    "PaliGemmaCausalLM": {"preprocessor": None},
    "SAM3PromptableConceptImageSegmenter": {},
    "SAMImageSegmenter": {},
    "StableDiffusion3ImageToImage": {"preprocessor": None},
    "StableDiffusion3Inpaint": {"preprocessor": None},
    "StableDiffusion3TextToImage": {"preprocessor": None},
    "VGGImageClassifier": _CLASSES | {"pooling_hidden_dim": 16},
}


# An encoded image of 4 x 4. A mask, which only the task adds, has four times its sides.
_SIZES = {"SAMImageSegmenter": {"length_2": (1,), "height_2": (16,), "width": (16,)}}
_REFUSED = {"Gemma4AssistantCausalLM": ("cannot be called standalone", "cannot be called standalone")}
_OTHERS = {"BLIP2Seq2SeqLM": "BLIP2Backbone of Flan-T5"}  # the backbone of a task that does not take the plain one


def _backbone(name: str) -> Recipe:
    """Returns the recipe of the backbone that a task is made for."""
    if name in _OTHERS:
        return BACKBONES[_OTHERS[name]]
    wanted = getattr(keras_hub.models, name).backbone_cls
    return next(r for n, r in BACKBONES.items() if " " not in n and getattr(keras_hub.models, n) is wanted)


def _task(name: str, backbone: Callable[[], Any]) -> Any:
    options = _OPTIONS.get(name, _CLASSES if name.endswith(("Classifier", "Segmenter", "Detector")) else {})
    return getattr(keras_hub.models, name)(backbone=backbone(), **options)


def _recipe(name: str) -> Recipe:
    own = _backbone(name)
    refused, in_keras = _REFUSED.get(name, (own.refused, own.in_keras))
    return dataclasses.replace(
        own,
        make=functools.partial(_task, name, own.make),
        below={**own.below, "mask_positions": "length"},
        sizes=_SIZES.get(name, own.sizes),
        refused=refused,
        in_keras=in_keras,
    )


def names() -> list[str]:
    """Returns the public names of all tasks, each class once, those aside that are for others to inherit from."""
    hub = keras_hub.models
    tasks = {each for each in vars(hub).values() if isinstance(each, type) and issubclass(each, hub.Task)}
    return sorted(task.__name__ for task in tasks if task.backbone_cls is not None)


TASKS = {name: _recipe(name) for name in names()}
