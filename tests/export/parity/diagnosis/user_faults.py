"""Faults of the layers in `user_code`: what the code of an exported model has in the place of a model's own."""

import importlib.util
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from keras_pe.export import export_litert, export_onnx, export_saved_model

FOLDER = Path(__file__).parent / "user_code"
EXPORTERS = {
    "onnx": (export_onnx, "model.onnx"),
    "tf_saved_model": (export_saved_model, "model"),
    "litert": (export_litert, "model.tflite"),
}


@dataclass(frozen=True)
class CodeFault:
    """A fault of a file of `user_code`.

    Attributes:
        file: The name of the file.
        own: A piece of its text, which is there once.
        wrong: The faulty replacement in the exported model.
    """

    file: str
    own: str
    wrong: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.own.split())} -> {' '.join(self.wrong.split())}"

    @property
    def lines(self) -> set[int]:
        """The lines that differ."""
        text = self._text
        assert text.count(self.own) == 1, str(self)
        pairs = zip(text.splitlines(), text.replace(self.own, self.wrong).splitlines(), strict=False)
        return {number for number, (one, other) in enumerate(pairs, 1) if one != other}

    @property
    def _text(self) -> str:
        return (FOLDER / self.file).read_text(encoding="utf-8")

    def plant(self, form: str, folder: Path) -> tuple[keras.Model, Path]:
        """Returns the model, and the artifact that was exported from the other code with the weights of the model."""
        model = _model(FOLDER / self.file)
        draw = np.random.default_rng(0)
        for variable in model.weights:
            variable.assign(draw.normal(scale=0.5, size=variable.shape) + ("gamma" in variable.path))
        other = folder / self.file
        other.write_text(self._text.replace(self.own, self.wrong), encoding="utf-8")
        exported = _model(other)
        exported.set_weights(model.get_weights())
        export, name = EXPORTERS[form]
        export(exported, folder / name)
        return model, folder / name


def _model(file: Path) -> keras.Model:
    """Returns the model of a file."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(1)
    name = f"user_code_{abs(hash(str(file)))}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make()


def _faults(file: str, *pairs: tuple[str, str]) -> Iterator[CodeFault]:
    yield from itertools.starmap(lambda own, wrong: CodeFault(f"{file}.py", own, wrong), pairs)


CODE_FAULTS = [
    *_faults(
        "detector",
        ("size = ops.square(size) * ops.conv", "size = size * ops.conv"),
        ("score * kind", "score"),
        ("ops.sigmoid(x[..., :2])", "ops.tanh(x[..., :2])"),
        ("ops.convert_to_tensor(self.anchors)", "ops.convert_to_tensor(self.anchors[::-1])"),
        ("ops.meshgrid(rows, rows)", "ops.meshgrid(rows, rows, indexing='ij')"),
        ("low = centers - size / 2", "low = centers - size"),
        ("/ self.cells", "/ (self.cells - 1)"),
        ("[low, high, score * kind]", "[high, low, score * kind]"),
    ),
    *_faults(
        "attention",
        ("scores = scores / math.sqrt(d // self.heads)", "pass"),
        ("math.sqrt(d // self.heads)", "math.sqrt(d)"),
        (
            "self.heads, d // self.heads))\n        return ops.transpose(x, (0, 2, 1, 3))",
            "d // self.heads, self.heads))\n        return ops.transpose(x, (0, 3, 1, 2))",
        ),
        ("ops.softmax(scores, axis=-1)", "ops.softmax(scores, axis=-2)"),
        ("k = self.split(ops.matmul(x, self.k))", "k = self.split(ops.matmul(x, self.q))"),
        ("ops.reshape(out, (b, t, d)) + x", "ops.reshape(out, (b, t, d))"),
        ("out = ops.transpose(out, (0, 2, 1, 3))", "out = ops.transpose(out, (0, 1, 2, 3))"),
    ),
    *_faults(
        "rotary",
        ("ops.repeat(angles, 2, axis=-1)", "ops.concatenate([angles, angles], axis=-1)"),
        ("[-second, first]", "[second, -first]"),
        ("second = x[..., 1::2]", "second = x[..., ::2]"),
        ('"float32") / width', '"float32") / (width - 2)'),
        ("+ self.rotate(x)", "- self.rotate(x)"),
        ('ops.arange(length, dtype="float32")', 'ops.arange(1, length + 1, dtype="float32")'),
    ),
    *_faults(
        "experts",
        ("        best = best / ops.sum(best, axis=-1, keepdims=True)\n", "        pass\n"),
        ("ops.silu(hidden)", "ops.gelu(hidden)"),
        ("ops.softmax(logits)", "ops.sigmoid(logits)"),
        ("ops.sum(out * gate[..., None], axis=2) + x", "ops.mean(out * gate[..., None], axis=2) + x"),
        ("hidden = ops.silu(hidden)", "pass"),
    ),
    *_faults(
        "graph",
        ("negative_slope=0.2", "negative_slope=0.01"),
        ("left[:, :, None] + right[:, None, :]", "left[:, None, :] + right[:, :, None]"),
        ("ops.where(edges > 0.5, scores, -1e4)", "ops.where(edges > 0.5, -1e4, scores)"),
        ("ops.softmax(scores, axis=-1)", "ops.softmax(scores, axis=1)"),
        ("ops.sqrt(ops.square(degree) + 1.0)", "ops.sqrt(ops.square(degree)) + 1.0"),
        ("ops.elu(out)", "out"),
        ("ops.sum(edges, axis=-1, keepdims=True)", "ops.expand_dims(ops.sum(edges, axis=1), -1)"),
    ),
    *_faults(
        "unet",
        ("(1 + scale[:, None, None, :])", "scale[:, None, None, :]"),
        ("ops.sqrt(variance + 1e-2)", "(ops.sqrt(variance) + 1e-2)"),
        ("scale, shift = ops.split", "shift, scale = ops.split"),
        ("1e-2", "1e-1"),
        ("x = ops.silu(x)", "x = ops.relu(x)"),
        ("return image + self.conv(x)", "return self.conv(x)"),
        ("(image - mean)", "image"),
        ("ops.var(image, axis=(1, 2)", "ops.var(image, axis=(1, 2, 3)"),
    ),
    *_faults(
        "codebook",
        ("squares - 2 * products", "squares - products"),
        ("ops.argmin(distances", "ops.argmax(distances"),
        ("-distances / 0.5", "-distances / 2.0"),
        ("0.9 * hard + 0.1 * soft", "0.1 * hard + 0.9 * soft"),
        ("ops.softmax(-distances", "ops.softmax(distances"),
        ("- 2 * products + lengths", "- 2 * products"),
    ),
    *_faults(
        "conformer",
        ("h = value * ops.sigmoid(gate)", "h = gate * ops.sigmoid(value)"),
        ("value * ops.sigmoid(gate)", "value * ops.tanh(gate)"),
        ("ops.square(x - mean)", "ops.abs(x - mean)"),
        ("ops.rsqrt(spread + 1e-3)", "(ops.rsqrt(spread) + 1e-3)"),
        ("x + 0.5 * ops.matmul", "x + ops.matmul"),
        ("1.5 * h", "h"),
        ("* self.gamma", "* (1 + self.gamma)"),
        (
            'ops.depthwise_conv(h, self.kernel, 1, padding="same")',
            'ops.roll(ops.depthwise_conv(h, self.kernel, 1, padding="same"), 1, axis=1)',
        ),
    ),
    *_faults(
        "latent",
        ("* 3.0", "* 2.0"),
        ("keys = x / norm", "keys = x"),
        ("tf.nn.softmax(scores, axis=-1)", "tf.nn.softmax(scores, axis=1)"),
        ("tf.reduce_max(x, axis=1)", "tf.reduce_mean(x, axis=1)"),
        (
            "tf.reshape(pooled, (-1, 4 * x.shape[-1]))",
            "tf.reshape(tf.transpose(pooled, (0, 2, 1)), (-1, 4 * x.shape[-1]))",
        ),
        ("[flat, tf.reduce_max(x, axis=1)]", "[tf.reduce_max(x, axis=1), flat]"),
    ),
    *_faults(
        "linear",
        ("ops.elu(x) + 1", "ops.elu(x)"),
        ("ops.elu(x) + 1", "ops.relu(x) + 1"),
        ('"btd,btde->bte"', '"btd,bted->bte"'),
        ("state = ops.cumsum(kv, axis=1)", "state = kv"),
        ("top / (bottom + 1e-3)", "top / bottom + 1e-3"),
        ("v = ops.matmul(x, self.v)", "v = ops.matmul(x, self.k)"),
        ("ops.sum(q * total", "ops.mean(q * total"),
        ("k = self.feature(ops.matmul(x, self.k))", "k = ops.matmul(x, self.k)"),  # a denominator is near zero
    ),
    *_faults(
        "swin",
        ("scores = scores + self.bias", "scores = scores + ops.transpose(self.bias)"),
        ("* c**-0.5", "* 1.0"),
        ("(-self.shift, -self.shift)", "(self.shift, self.shift)"),
        ("        y = ops.roll(y, (self.shift, self.shift), axis=(1, 2))\n", "        pass\n"),
        (
            "y = ops.transpose(y, (0, 1, 3, 2, 4, 5))\n        y = ops.reshape(y, (b, h // s *",
            "y = ops.transpose(y, (0, 1, 3, 4, 2, 5))\n        y = ops.reshape(y, (b, h // s *",
        ),
        ("return x + y", "return y"),
    ),
    *_faults(
        "heads",
        ('"bid,bjd->bij", s, e', '"bid,bjd->bij", e, s'),
        ("pairs - 0.1 * gap", "pairs + 0.1 * gap"),
        ("ops.abs(steps[:, None] - steps[None, :])", "steps[:, None] - steps[None, :]"),
        ("(1 - gate) * x", "gate * x"),
        ("gate * mixed + (1 - gate) * x", "gate * x + (1 - gate) * mixed"),
        ("axis=-1, keepdims=True)\n        mixed", "axis=-2, keepdims=True)\n        mixed"),
        ("pairs = pairs / width**0.5", "pairs = pairs / width"),
        ("e = ops.tanh(ops.matmul(x, self.end))", "e = ops.matmul(x, self.end)"),
    ),
    *_faults(
        "gates",
        ("+ 0.25", "+ 0.2"),
        ("shape[-1] - 1.0", "shape[-1] - 2.0"),
        ("axis=-1) == 1", "axis=-1) == 2"),
        ("25.0, 40.0", "25.0, 42.0"),
    ),
    *_faults(
        "codes",
        ("(unit - first), self.fine)", "(unit - first), self.coarse)"),
        ("keepdims=True) + 1e-3)", "keepdims=True)) + 1e-3"),
    ),
    *_faults(
        "nested",
        ("ops.square(ops.relu(h))", "ops.relu(h)"),
        ("h = h * 0.25", "pass"),
        ("ops.tanh(h) + x", "ops.tanh(h + x)"),
        ("ops.relu(h)", "ops.gelu(h)"),
    ),
    *_faults(
        "capsules",
        (
            "return ops.sqrt(ops.sum(ops.square(made), axis=-1) + 1e-6)",
            "return ops.sum(made**2, axis=-1) + 1e-6",
        ),
        ("self.squash(ops.sum(share[..., None] * votes, axis=1))", "ops.sum(share[..., None] * votes, axis=1)"),
        ("made = self.squash(", "made = ops.tanh("),
    ),
    *_faults(
        "triangles",
        ("bikc,bjkc->bijc", "bkic,bkjc->bijc"),
        ("ops.power(self.gamma,", "ops.power(0.9,"),
    ),
    *_faults(
        "rays",
        ("        clear = ops.concatenate([ops.ones_like(clear[:, :1]), clear[:, :-1]], axis=1)\n", "        pass\n"),
        ("[ops.sin(angles), ops.cos(angles)]", "[ops.cos(angles), ops.sin(angles)]"),
        ("seen + behind, depth", "seen, depth"),
    ),
    *_faults(
        "warp",
        ("fx, fy = x - x0, y - y0", "fx, fy = x - x0, x - x0"),
        ("(h - 1) / 2.0", "(w - 1) / 2.0"),
        ("* (1.0 - fx)[..., None] + at(y0, x0 + 1)", "* (1.0 - fx)[..., None] + at(y0, x0)"),
    ),
    *_faults(
        "matching",
        ("gate * slots + (1.0 - gate) * update", "(1.0 - gate) * slots + gate * update"),
        ("for _ in range(self.rounds):\n            plan", "for _ in range(self.rounds - 1):\n            plan"),
    ),
    *_faults("kalman", ("x[:, number], r)", "x[:, number - 1], r)")),
    *_faults(
        "crf",
        ("alpha[:, :, None] + self.moves", "alpha[:, None, :] + self.moves"),
        ("(scores[:, t] + beta)", "(scores[:, t - 1] + beta)"),
        ("[2, 0]", "[0, 2]"),
    ),
    *_faults(
        "selector",
        ("h[:, :half] * ops.sigmoid(h[:, half:])", "h[:, half:] * ops.sigmoid(h[:, :half])"),
        ("x * (1.0 + chosen)", "x * (2.0 + chosen)"),
    ),
    *_faults(
        "statements",
        (
            "falling = (edges[2:] - places) / (edges[2:] - edges[1:-1])",
            "falling = (edges[2:] - places) / (edges[2:] - edges[:-2])",
        ),
        ("(columns <= rows) &", "(columns >= rows) &"),
        ("after = (window - 1) // 2", "after = window // 2"),
        ("for n in range(1, width + 1)", "for n in range(1, width)"),
        ("lift(unit(x @ self.query))", "unit(lift(x @ self.query))"),
        ("ops.sigmoid(gate(y))", "ops.sigmoid(gate(x))"),
    ),
    *_faults(
        "memory",
        ("ops.roll(weights, n - 1, axis=-1)", "ops.roll(weights, 1 - n, axis=-1)"),
        ('unit(raw["key"])', 'raw["key"]'),
    ),
    *_faults("superres", ("tf.reduce_mean(x, axis=[1, 2])", "tf.reduce_max(x, axis=[1, 2])")),
    *_faults("lifting", ("(4 - k) % 4", "k")),
    *_faults(
        "wave",
        ("[(size - 1) * rate, 0]", "[0, (size - 1) * rate]"),
        ("        h = h + self.speaker(who)[:, None, :]\n", "        pass\n"),
        ("(x + self.out(h)) * 0.5**0.5", "(x + self.out(h))"),
        ("h[..., : self.channels], h[..., self.channels :]", "h[..., ::2], h[..., 1::2]"),
    ),
    *_faults(
        "alibi",
        (
            "(-1, self.length, 3, self.heads, size))",
            "(-1, 3, self.heads, self.length, size)); h = ops.transpose(h, (0, 3, 1, 2, 4))",
        ),
        ("gap > 0, -1e9", "gap >= 0, -1e9"),
        (
            "(-1, self.length, self.parts, self.width))",
            "(-1, self.length, self.width, self.parts)); latent = ops.swapaxes(latent, 2, 3)",
        ),
    ),
    *_faults(
        "siren",
        ("x * (1.0 + scale) + shift", "(x + shift) * (1.0 + scale)"),
        ("codes[:, number]", "codes[:, 0]"),
        ("ops.sin(self.omega * h)", "self.omega * ops.sin(h)"),
    ),
    *_faults(
        "ode",
        ("k4 = field(t + h, y + h * k3)", "k4 = field(t, y + h * k3)"),
        ("- 0.1 * y", "+ 0.1 * y"),
    ),
    *_faults(
        "constants",
        ("EPSILON = 1e-2", "EPSILON = 1e-1"),
        ("LIMITS = (-1.5, 1.5)", "LIMITS = (-1.0, 1.5)"),
        ("rate=0.7", "rate=1.702"),
        ("self.scale = 3.0 / heads", "self.scale = 3.0 / heads**2"),
        ("self.shift = 2", "self.shift = -2"),
        ("1.0 / math.sqrt(d)", "1.0 / d"),
        ("first = d // 4", "first = d // 4 + 1"),
    ),
    *_faults(
        "messages",
        ("receiver = self.recv(h)[:, :, None, :]", "receiver = self.recv(h)[:, None, :, :]"),
        ("with_loops = adj + ops.eye(adj.shape[-1])", "with_loops = adj"),
        ("gcn_norm(adj), h), self.w_conv)", "gcn_norm(adj), h), self.w_agg)"),
    ),
    *_faults(
        "peaks",
        ("cell // columns", "cell // rows"),
        ("moved[..., 1]", "moved[..., 0]"),
        ("place % kinds", "place % rows"),
    ),
]
