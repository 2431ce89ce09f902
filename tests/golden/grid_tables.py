"""Runs the resizing and the biases of vision transformers and keeps what they return: writes grid-tables.npz beside it.

Usage (in an environment with torch==2.13.0):
    python tests/golden/grid_tables.py FOLDER

FOLDER holds these source files under the names of `SOURCES`. Their functions are read from the source and executed
unchanged, with stand-ins for what they import. No line of them is kept.

Source:
    facebookresearch/dino@7c446df vision_transformer.py; facebookresearch/dinov2@b8931f7 dinov2/models/
    vision_transformer.py; facebookresearch/mae@efb2a80 util/pos_embed.py (DeiT's main.py has the same lines);
    microsoft/Swin-Transformer@f82860b models/swin_transformer.py and swin_transformer_v2.py; microsoft/unilm@768a3c8
    beit/modeling_finetune.py; timm 1.0.31 layers/pos_embed.py and pos_embed_rel.py; transformers 5.23.0
    models/*/modeling_*.py

Kept are tables as `NAME/table` and what became of them as `NAME/ROWSxCOLUMNS`, and biases of windows as `NAME/bias`.
"""

import ast
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

RETURNED = Path(__file__).parent / "grid-tables.npz"
SOURCES = {
    name: f"{name}.py"
    for name in (
        *("dino", "dinov2", "mae", "timm", "timm_rel", "swin", "swin_v2", "beit"),
        *("hf_vit", "hf_deit", "hf_beit", "hf_dinov2", "hf_dinov2_with_registers", "hf_dpt", "hf_siglip2"),
    )
}
CHANNELS, PATCH = 3, 4


def definition(folder: Path, source: str, name: str) -> Any:
    """Returns a function or class of a source file, or `Class.method`, executed without decorators."""
    import torch
    from torch import nn

    *owner, wanted = name.split(".")
    body: list[ast.stmt] = ast.parse((folder / SOURCES[source]).read_text()).body
    for each in owner:
        body = next(node.body for node in body if isinstance(node, ast.ClassDef) and node.name == each)
    (found,) = (node for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == wanted)
    found.decorator_list = []
    names = {
        **{"torch": torch, "nn": nn, "F": nn.functional, "math": math, "np": np},
        **{each: getattr(__import__("typing"), each) for each in ("List", "Optional", "Tuple", "Union")},
        **{"torch_int": int, "is_exporting": lambda: False, "trunc_normal_": nn.init.trunc_normal_},
        **{"torch_compilable_check": lambda *_: None},
    }
    exec(compile(ast.Module([found], []), SOURCES[source], "exec"), names)
    return names[wanted]


def table(seed: int, tokens: int, channels: int = CHANNELS) -> Any:
    """Returns the values of a table, `(1, tokens, channels)`."""
    import torch

    return torch.from_numpy(np.random.default_rng(seed).normal(size=(1, tokens, channels)).astype("float32"))


def interpolate_tables(folder: Path) -> dict[str, Any]:
    """Returns tables and what the methods of models make of them; images are `PATCH` times as large as their grids."""
    import torch

    arrays: dict[str, Any] = {}

    def keep(name: str, given: Any, new: tuple[int, int], found: Any) -> None:
        arrays[f"{name}/table"] = given.numpy()
        arrays[f"{name}/{new[0]}x{new[1]}"] = found.detach().numpy()

    grids = [(7, 9), (23, 16), (14, 20), (3, 5)]
    for new in grids:
        given, image = table(1, 1 + 14 * 14), tuple(PATCH * size for size in new)
        tokens = torch.zeros(1, 1 + new[0] * new[1], CHANNELS)
        model = SimpleNamespace(pos_embed=given, patch_size=PATCH, patch_embed=SimpleNamespace(patch_size=PATCH))
        keep("dino", given, new, definition(folder, "dino", "VisionTransformer.interpolate_pos_encoding")(
            model, tokens, *image))  # fmt: skip
        method = definition(folder, "dinov2", "DinoVisionTransformer.interpolate_pos_encoding")
        for name, offset, antialias in (
            ("dinov2", 0.1, False), ("dinov2 of registers", 0.0, True), ("dinov2 of both", 0.1, True),
        ):  # fmt: skip
            model.interpolate_offset, model.interpolate_antialias = offset, antialias
            keep(name, given, new, method(model, tokens, *image))
        resample = definition(folder, "timm", "resample_abs_pos_embed")
        for name, arguments in {
            "timm": {},
            "timm bilinear": {"interpolation": "bilinear"},
            "timm without antialias": {"antialias": False},
            "timm bilinear of corners": {"interpolation": "bilinear", "antialias": False, "align_corners": True},
            "timm of corners": {"align_corners": True},
        }.items():
            keep(name, given, new, resample(given, list(new), **arguments))
        oblong = table(2, 2 + 6 * 10)
        keep("timm oblong", oblong, new, resample(oblong, list(new), [6, 10], num_prefix_tokens=2))
        for name, owner, count in (
            ("vit", "ViTEmbeddings", 1), ("deit", "DeiTEmbeddings", 2), ("beit", "BeitEmbeddings", 1),
            ("dinov2", "Dinov2Embeddings", 1), ("dinov2_with_registers", "Dinov2WithRegistersEmbeddings", 1),
        ):  # fmt: skip
            given = table(3, count + 14 * 14)
            size = PATCH if name in ("vit", "deit", "beit") else (PATCH, PATCH)
            embeddings = SimpleNamespace(
                position_embeddings=given, patch_size=PATCH, patch_embeddings=SimpleNamespace(patch_size=size),
                config=SimpleNamespace(patch_size=size),
            )  # fmt: skip
            tokens = torch.zeros(1, count + new[0] * new[1], CHANNELS)
            found = definition(folder, f"hf_{name}", f"{owner}.interpolate_pos_encoding")(embeddings, tokens, *image)
            keep(f"transformers {name}", given, new, found)
        given = table(4, 1 + 8 * 8)
        resize = definition(folder, "hf_dpt", "DPTViTEmbeddings._resize_pos_embed")
        keep("transformers dpt", given, new, resize(None, given, *new))
        resize = definition(folder, "hf_siglip2", "Siglip2VisionEmbeddings.resize_positional_embeddings")
        given = table(5, 8 * 8)
        found = resize(given.reshape(8, 8, CHANNELS), torch.tensor([new]), new[0] * new[1])
        keep("transformers siglip2", given, new, found)
    for size in (9, 20):
        given, model = table(6, 2 + 14 * 14), SimpleNamespace()
        model.patch_embed, model.pos_embed = (
            SimpleNamespace(num_patches=size * size),
            torch.zeros(1, 2 + size * size, 1),
        )
        checkpoint = {"pos_embed": given}
        definition(folder, "mae", "interpolate_pos_embed")(model, checkpoint)
        keep("mae", given, (size, size), checkpoint["pos_embed"])
    return arrays


def biases(folder: Path) -> dict[str, Any]:
    """Returns trained values, and the biases that Swin, Swin v2 and BEiT add to the scores of a window."""
    import torch

    arrays: dict[str, Any] = {}
    torch.manual_seed(0)
    attention = definition(folder, "swin", "WindowAttention")(8, (3, 4), 2)
    keep_scores(arrays, "swin", attention, 12)
    arrays["swin/table"] = attention.relative_position_bias_table.detach().numpy()
    for name, window, trained in (
        ("swin_v2", (3, 4), [0, 0]), ("swin_v2 of another window", (4, 5), [3, 2]),
    ):  # fmt: skip
        attention = definition(folder, "swin_v2", "WindowAttention")(
            8, window, 2, qkv_bias=False, pretrained_window_size=trained
        )
        keep_scores(arrays, name, attention, window[0] * window[1])
        hidden, _, output = attention.cpb_mlp
        for each, value in (("kernel", hidden.weight), ("hidden_bias", hidden.bias), ("output", output.weight)):
            arrays[f"{name}/{each}"] = value.detach().numpy()
    beit = definition(folder, "beit", "RelativePositionBias")((3, 4), 2)
    values = table(7, 5 * 7 + 3, 2)[0]
    beit.relative_position_bias_table.data = values
    arrays["beit/table"], arrays["beit/bias"] = values.numpy(), beit().detach().numpy()
    values = table(9, 7 * 7 + 3, 2)[0]
    resize = definition(folder, "timm_rel", "resize_rel_pos_bias_table_simple")
    arrays["timm beit/table"], arrays["timm beit/9x11"] = (
        values.numpy(),
        resize(values, (5, 6), (9 * 11 + 3, 2)).numpy(),
    )
    square = definition(folder, "timm_rel", "resize_rel_pos_bias_table_levit")
    small = table(8, 5 * 5, 2)[0]
    arrays["timm tiny_vit/table"], arrays["timm tiny_vit/9x9"] = small.numpy(), square(small, (81, 2)).numpy()
    owner = SimpleNamespace(window_size=(4, 4), num_relative_distance=7 * 7 + 3)
    owner.relative_position_bias_table = values
    owner.generate_relative_position_index = definition(
        folder, "hf_beit", "BeitRelativePositionBias.generate_relative_position_index"
    )
    forward = definition(folder, "hf_beit", "BeitRelativePositionBias.forward")
    arrays["transformers beit window/table"] = values.numpy()
    arrays["transformers beit window/bias"] = forward(owner, (3, 6)).numpy()[0]
    return arrays


def keep_scores(arrays: dict[str, Any], name: str, attention: Any, tokens: int) -> None:
    """Keeps the scores of queries and keys of zero, which are the bias: what the softmax is given."""
    import torch

    seen = []
    attention.softmax.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    for each in attention.qkv.parameters():
        each.data.zero_()
    attention(torch.zeros(1, tokens, 8))
    arrays[f"{name}/bias"] = seen[0][0].detach().numpy()


def main(folder: Path) -> None:
    """Writes the file."""
    np.savez_compressed(RETURNED, **interpolate_tables(folder), **biases(folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
