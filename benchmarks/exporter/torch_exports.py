"""Exports the models of the benchmark from PyTorch by both exporters of PyTorch, if `transformers` has the model."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from benchmarks.exporter.models import (
    CASES,
    HEADS,
    HIDDEN,
    IMAGE,
    LAYERS,
    POSITIONS,
    SOUND,
    VOCABULARY,
    WIDTH,
    images,
    sounds,
    texts,
)

_LATEST = 18  # the last opset of the older exporter
_SIZES = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS}


class _Called(nn.Module):
    """A model that is called with tensors by position, and returns its last hidden states, or its first output."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, tensors, strict=True)), return_dict=False)[0]


def _text(model: nn.Module) -> tuple[nn.Module, Any, dict[str, str]]:
    return model, texts, {"token_ids": "input_ids", "padding_mask": "attention_mask"}


def _image(model: nn.Module) -> tuple[nn.Module, Any, dict[str, str]]:
    return model, images, {"images": "pixel_values"}


def _bert() -> Any:
    config = transformers.BertConfig(**_SIZES, intermediate_size=HIDDEN, max_position_embeddings=POSITIONS)
    model, feeds, names = _text(transformers.BertModel(config))
    return model, feeds, {**names, "segment_ids": "token_type_ids"}


def _gpt2() -> Any:
    sizes = {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS, "n_inner": HIDDEN}
    return _text(transformers.GPT2Model(transformers.GPT2Config(vocab_size=VOCABULARY, use_cache=False, **sizes)))


def _gemma() -> Any:
    sizes = {"intermediate_size": HIDDEN, "num_key_value_heads": 1, "head_dim": WIDTH // HEADS}
    return _text(transformers.GemmaModel(transformers.GemmaConfig(**_SIZES, **sizes, use_cache=False)))


def _vit() -> Any:
    sizes = {key: value for key, value in _SIZES.items() if key != "vocab_size"}
    config = transformers.ViTConfig(**sizes, intermediate_size=HIDDEN, image_size=IMAGE, patch_size=16)
    return _image(transformers.ViTModel(config, add_pooling_layer=False))


def _whisper() -> Any:
    config = transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        **dict.fromkeys(("encoder_layers", "decoder_layers"), LAYERS),
        **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), HEADS),
        **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), HIDDEN),
        **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0),
        max_source_positions=SOUND // 2,
        use_cache=False,
    )
    names = {"decoder_token_ids": "decoder_input_ids", "decoder_padding_mask": "decoder_attention_mask"}
    return transformers.WhisperModel(config), sounds, {"encoder_features": "input_features", **names}


def _efficientnet() -> Any:
    config = transformers.EfficientNetConfig(
        width_coefficient=1.0, depth_coefficient=1.0, image_size=IMAGE, hidden_dim=1280, num_labels=1000
    )
    return _image(transformers.EfficientNetForImageClassification(config))


BUILDERS: dict[str, Callable[[], Any]] = {
    "BERT": _bert,
    "ViT": _vit,
    "GPT-2": _gpt2,
    "Gemma": _gemma,
    "Whisper": _whisper,
    "ResNet50": lambda: _image(transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000))),
    "EfficientNetB0": _efficientnet,
    "ConvNeXtTiny": lambda: _image(
        transformers.ConvNextForImageClassification(transformers.ConvNextConfig(num_labels=1000, image_size=IMAGE))
    ),
}

# Names of the architectures in ONNX Runtime's optimizer of transformers.
KINDS = {"BERT": "bert", "ViT": "vit", "GPT-2": "gpt2", "Whisper": "bart"}


def export(name: str, newer: bool, path: Path, opset: int) -> None:
    """Writes the file of one of the two exporters.

    Args:
        name: The model's name.
        newer: Whether by `torch.export` (dynamo), or by TorchScript.
        path: The file.
        opset: ONNX's operator set; the older exporter stops at an earlier one.
    """
    torch.manual_seed(0)
    model, feeds, names = BUILDERS[name]()
    given = feeds(*CASES[feeds][-1])
    tensors = tuple(torch.from_numpy(given[each].copy()) for each in names)
    tensors = tuple(x.movedim(-1, 1).contiguous() if x.dim() > 2 else x for x in tensors)
    axes = {
        each: {0: "batch"} if x.dim() > 2 else {0: "batch", 1: "length"} for each, x in zip(names, tensors, strict=True)
    }
    with torch.no_grad():  # as if trained, see `models`
        for weight in (*model.parameters(), *model.buffers()):
            if weight.is_floating_point():
                weight.add_(0.05 * torch.randn_like(weight).abs())
    called = _Called(model, list(names.values())).eval()
    options: dict[str, Any] = {"input_names": list(names), "opset_version": opset, "dynamo": newer}
    if newer:
        dims = {axis: torch.export.Dim(axis) for each in axes.values() for axis in each.values()}
        shapes = tuple({place: dims[axis] for place, axis in each.items()} for each in axes.values())
        torch.onnx.export(called, tensors, path, dynamic_shapes=(shapes,), external_data=False, **options)
    else:
        options["opset_version"] = min(opset, _LATEST)
        torch.onnx.export(called, tensors, path, dynamic_axes=axes, **options)


def optimize(name: str, source: Path, path: Path) -> None:
    """Writes what ONNX Runtime's optimizer of transformers makes of the file of an exporter."""
    from onnxruntime.transformers.optimizer import optimize_model

    optimize_model(str(source), KINDS[name], num_heads=HEADS, hidden_size=WIDTH).save_model_to_file(str(path))
