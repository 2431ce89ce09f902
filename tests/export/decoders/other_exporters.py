"""Files of a small decoder that both exporters of PyTorch write.

    python -m tests.export.decoders.other_exporters FOLDER

writes the model of transformers to FOLDER/hf, and FOLDER/dynamo.onnx and FOLDER/script.onnx.
"""

import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.cache_utils import DynamicCache

_SIZES: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "initializer_range": 0.15,
}
_NAMES = [f"{{}}.{layer}.{part}" for layer in range(2) for part in ("key", "value")]


class Step(torch.nn.Module):
    """Calls a model with the keys and values of earlier tokens, and returns the logits, then all keys and values."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, past: Any) -> Any:
        cache = DynamicCache()
        for layer, (key, value) in enumerate(zip(past[::2], past[1::2], strict=True)):
            cache.update(key, value, layer)
        given = {"attention_mask": attention_mask, "position_ids": position_ids, "past_key_values": cache}
        found = self.model(input_ids, **given, use_cache=True)
        return (found.logits, *(each for layer in cache.layers for each in (layer.keys, layer.values)))


def main(folder: Path) -> None:
    """Writes the files."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**_SIZES, bos_token_id=1, eos_token_id=0, pad_token_id=0)).eval()
    model.save_pretrained(folder / "hf")
    words = Tokenizer(WordLevel({str(token): token for token in range(97)}, "0"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="0").save_pretrained(folder / "hf")
    tokens, columns = torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 8, dtype=torch.int64)
    past = [torch.rand(2, 2, 5, 16) for _ in _NAMES]
    old, new = ([name.format(part) for name in _NAMES] for part in ("past_key_values", "present"))
    tensors = ["input_ids", "attention_mask", "position_ids"]
    names: dict[str, Any] = {"input_names": [*tensors, *old], "output_names": ["logits", *new]}
    arguments = (tokens, columns, torch.arange(5, 8)[None].repeat(2, 1), past)
    free = torch.export.Dim.DYNAMIC
    shapes = ({0: free, 1: free}, {0: free, 1: free}, {0: free, 1: free}, [{0: free, 2: free}] * len(past))
    step = Step(model)
    torch.onnx.export(step, arguments, folder / "dynamo.onnx", dynamo=True, dynamic_shapes=shapes, **names)
    axes = {name: {0: "batch", 1: f"{name}_length"} for name in (*tensors, "logits")}
    axes |= {name: {0: "batch", 2: f"{name}_length"} for name in (*old, *new)}
    torch.onnx.export(step, arguments, str(folder / "script.onnx"), dynamo=False, dynamic_axes=axes, **names)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
