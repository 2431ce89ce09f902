"""A Llama decoder written by hand of ONNX Runtime's fused operators: a bound for our files."""

from pathlib import Path
from typing import Any

import numpy as np

_MICROSOFT = "com.microsoft"


def write_llama(model: Any, file: Path, longest: int, *, is_shared: bool = True) -> None:
    """Writes the file.

    Args:
        model: A `LlamaCausalLM` of keras-hub.
        file: The file to write.
        longest: The largest number of tokens of a text, for the table of rotations.
        is_shared: Whether the cache is written in place. Otherwise each call returns a longer copy.
    """
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph(model, longest)
    graph.build()
    backbone = model.backbone
    heads = backbone.num_key_value_heads
    channels = backbone.hidden_dim // backbone.num_query_heads

    def caches(names: list[str], rows: str) -> list[Any]:
        shape = ["batch", heads, "longest" if is_shared else rows, channels]
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]

    floats, presents = caches(graph.pasts, "past"), caches(graph.presents, "total")
    integers = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"]),
        helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "total"]),
    ]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", backbone.vocabulary_size])
    proto = helper.make_graph(graph.nodes, "llama", [*integers, *floats], [logits, *presents], graph.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_MICROSOFT, 1)]
    onnx.save(helper.make_model(proto, opset_imports=opsets, ir_version=10), file)


class _Graph:
    def __init__(self, model: Any, longest: int) -> None:
        self._model, self._longest = model, longest
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        layers = range(model.backbone.num_layers)
        self.pasts = [f"past_key_values.{layer}.{part}" for layer in layers for part in ("key", "value")]
        self.presents = [f"present.{layer}.{part}" for layer in layers for part in ("key", "value")]

    def build(self) -> None:
        """Writes the nodes and the weights."""
        backbone = self._model.backbone
        self._rotation()
        self.add("ReduceSum", ["attention_mask", self.weight("axis", np.array([1]))], ["count"], keepdims=0)
        self.add("Sub", ["count", self.weight("one", np.array(1))], ["last"])
        self.add("Cast", ["last"], ["last32"], to=6)
        self.add("Shape", ["attention_mask"], ["lengths"], start=1)
        self.add("Cast", ["lengths"], ["lengths32"], to=6)
        self.add("Squeeze", ["lengths32"], ["total"])
        embeddings = np.asarray(backbone.token_embedding.embeddings)
        self.add("Gather", [self.weight("embeddings", embeddings), "input_ids"], ["x"])
        x, added = "x", ""
        for number, layer in enumerate(backbone.transformer_layers):
            x, y = self.normalize(x, added, layer._self_attention_layernorm)
            x, y = self.normalize(x, self.attention(number, layer, y), layer._feedforward_layernorm)
            gate, up = (
                self.product(y, part) for part in (layer._feedforward_gate_dense, layer._feedforward_intermediate_dense)
            )
            (sigmoid,) = self.add("Sigmoid", [gate])
            (silu,) = self.add("Mul", [gate, sigmoid])
            (mixed,) = self.add("Mul", [silu, up])
            added = self.product(mixed, layer._feedforward_output_dense)
        _, y = self.normalize(x, added, backbone.layer_norm)
        kernel = np.asarray(backbone.token_embedding.reverse_embeddings)
        self.add("MatMul", [y, self.weight("output", kernel)], ["logits"])

    def attention(self, number: int, layer: Any, y: str) -> str:
        """Writes one attention, and returns its output."""
        own = layer._self_attention_layer
        projections = [self.product(y, part) for part in (own._query_dense, own._key_dense, own._value_dense)]
        pair = slice(2 * number, 2 * number + 2)
        inputs = [*projections, *self.pasts[pair], "last32", "total", "cos", "sin"]
        outputs = [f"attended_{number}", *self.presents[pair]]
        heads = {"num_heads": own.num_query_heads, "kv_num_heads": own.num_key_value_heads}
        (rows, *_) = self.add("GroupQueryAttention", inputs, outputs, domain=_MICROSOFT, do_rotary=1, **heads)
        return self.product(rows, own._output_dense, is_last=True)

    def product(self, x: str, dense: Any, *, is_last: bool = False) -> str:
        """Writes the product with the kernel of a dense layer, whose heads become one axis."""
        kernel = np.asarray(dense.kernel)
        wide = kernel.reshape(-1, kernel.shape[-1]) if is_last else kernel.reshape(kernel.shape[0], -1)
        return self.add("MatMul", [x, self.weight(dense.path, wide)])[0]

    def normalize(self, x: str, added: str, layer: Any) -> tuple[str, str]:
        """Writes a sum and its normalization, and returns both."""
        scale, epsilon = self.weight(layer.path, np.asarray(layer.scale)), layer.epsilon
        if not added:
            return x, self.add("SimplifiedLayerNormalization", [x, scale], axis=-1, epsilon=epsilon)[0]
        names = [f"normal_{len(self.nodes)}", "", "", f"sum_{len(self.nodes)}"]
        operator = "SkipSimplifiedLayerNormalization"
        self.add(operator, [x, added, scale], names, domain=_MICROSOFT, epsilon=epsilon)
        return names[3], names[0]

    def _rotation(self) -> None:
        backbone = self._model.backbone
        half = backbone.hidden_dim // backbone.num_query_heads // 2
        rates = backbone.rope_max_wavelength ** -(np.arange(half) / half)
        angles = np.arange(self._longest)[:, None] * rates
        self.weight("cos", np.cos(angles).astype("float32"))
        self.weight("sin", np.sin(angles).astype("float32"))

    def weight(self, name: str, value: Any) -> str:
        """Adds a weight, and returns its name."""
        from onnx import numpy_helper

        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def add(self, operator: str, inputs: list[str], outputs: list[str] | None = None, **attributes: Any) -> list[str]:
        """Adds a node, and returns the names of its outputs."""
        from onnx import helper

        outputs = outputs or [f"{operator}_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs
