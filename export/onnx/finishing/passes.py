"""The passes that make the graph of a file from tf2onnx' graph, in order, with the promise of each pass.

Every pass gets a graph in topological order whose unused nodes are removed. A rule replaces a pattern of operators and
reports why a pattern stays; the other passes change the whole graph.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import onnx_ir as ir
from onnx_ir.passes import common

from keras_pe.export.onnx.finishing import einsum_rewrites, operator_rewrites
from keras_pe.export.onnx.finishing.attention import attend
from keras_pe.export.onnx.finishing.canonical_form import merge_equal, name_after_layers, order_needed
from keras_pe.export.onnx.finishing.constants import compute_constants, remove_no_ops
from keras_pe.export.onnx.finishing.graph_edits import drop_unneeded
from keras_pe.export.onnx.finishing.image_axes import compute_channels_first
from keras_pe.export.onnx.finishing.image_rows import run_1d_as_2d
from keras_pe.export.onnx.finishing.normalizations import fold_normalizations, store_normalizations
from keras_pe.export.onnx.finishing.reshapes import merge_reshapes, remove_needless_reshapes, write_shapes
from keras_pe.export.onnx.finishing.rules import Outcome, Rule
from keras_pe.export.onnx.finishing.shape_sources import (
    allow_empty_reshapes,
    count_in_64_bits,
    read_single_sizes,
    share_sizes,
)
from keras_pe.export.onnx.finishing.shared_cache import attend_in_place
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes
from keras_pe.export.onnx.finishing.weight_layouts import multiply_unsigned, name_weights, store_as_read


@dataclass
class Graph:
    """A graph between two passes.

    Attributes:
        model: The ONNX model, whose weights are inputs.
        layers: The layers of the Keras model, by path.
        foldings: The path of each folded normalization, by the path of the layer that contains it in the file.
        outcomes: The patterns that rules replaced, or found and left.
    """

    model: ir.Model
    layers: Mapping[str, Any]
    foldings: dict[str, str] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def graph(self) -> ir.Graph:
        """The model's graph."""
        return self.model.graph

    @cached_property
    def sizes(self) -> KnownSizes:
        """The known sizes of the values."""
        return KnownSizes(self.graph)

    def infer(self) -> None:
        """Adds the types and shapes that ONNX infers to the values."""
        common.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(self.model)
        self.__dict__.pop("sizes", None)


def _fold_constants(each: Graph) -> None:
    while compute_constants(each.graph, each.sizes):
        each.infer()


def _write_shapes(each: Graph) -> None:
    write_shapes(each.graph, each.sizes)
    each.infer()  # ONNX infers the sizes after a convolution if it knows those before


PASSES: tuple[Callable[[Graph], None] | Rule, ...] = (
    # Every Transpose names the order of its axes, so that later passes read one form.
    operator_rewrites.write_order,
    # A Max and a Min with constant bounds are one Clip.
    operator_rewrites.clip,
    # No node computes with constants and known sizes alone, apart from numbers that may be weights.
    _fold_constants,
    # No node returns its input.
    lambda each: remove_no_ops(each.graph, each.sizes),
    # Both factors of a product keep the order of channels that they had before the same shuffle.
    einsum_rewrites.remove_shuffles,
    # Attention is one operator. The contractions are still Einsums: the rule reads their axes by label.
    attend,
    # An Einsum of two tensors is one MatMul or Mul.
    einsum_rewrites.multiply_matrices,
    # In attention, queries that see no key are masked after the product with the values.
    einsum_rewrites.mask_rows_of_product,
    # A product is not transposed if its factors can be.
    einsum_rewrites.swap_factors,
    # The shapes that attention and contractions have added are constants.
    _fold_constants,
    # The bias of a projection is added to the product, before the Reshape that splits the result into heads.
    operator_rewrites.add_bias_before_split,
    # Shapes are constants if possible: the next two passes then find equal sizes and needless Reshapes.
    _write_shapes,
    # One Shape reads the sizes that several tensors share.
    lambda each: share_sizes(each.graph, each.sizes),
    # No Reshape stands between a row-wise operator and the tensor of any rank that it could read.
    lambda each: remove_needless_reshapes(each.graph, each.sizes),
    # Shapes are computed in the type that operators read.
    lambda each: count_in_64_bits(each.graph),
    # A scaled root mean square is one RMSNormalization, or the form that ONNX Runtime fuses.
    operator_rewrites.root_mean_square,
    # A Gather counts negative indices itself.
    operator_rewrites.count_from_the_end,
    # 1-D convolutions and the operators between them read images of one row.
    lambda each: run_1d_as_2d(each.graph, each.sizes),
    # No padding of SAME is negative.
    operator_rewrites.cut_unread_pixels,
    # Between convolutions, images have their channels first.
    lambda each: compute_channels_first(each.graph, each.sizes),
    # ONNX Runtime fuses no Pad with a MaxPool, which it would do wrongly. Both have their channels first by now.
    operator_rewrites.protect_pad,
    # The average of a small image is one operator, which keeps the layout of a convolution.
    operator_rewrites.average_image,
    # No weight is transposed or reshaped in a run. The layout pass has moved the transpositions of weights to them.
    lambda each: store_as_read(each.graph),
    # Weights of int8 are stored and multiplied as uint8.
    lambda each: multiply_unsigned(each.graph),
    # Consecutive Transposes or Reshapes are one or none.
    lambda each: merge_reshapes(each.graph, each.sizes),
    # A computed shape may hold zeros. The shapes do not change after this pass.
    lambda each: allow_empty_reshapes(each.graph, each.sizes),
    # An image of the model's input is transposed before it is scaled.
    operator_rewrites.transpose_before_scaling,
    # A single size is read by one Shape, from an input instead of an image.
    lambda each: read_single_sizes(each.graph, each.sizes),
    # A normalization is part of the convolution or product before it. Its numbers have their final layout here.
    lambda each: each.foldings.update(fold_normalizations(each.graph, each.layers)),
    # Another normalization is one operator, or a Mul and an Add.
    lambda each: each.foldings.update(store_normalizations(each.graph, each.sizes, each.layers)),
    # A constant that equals a weight of its layer is that weight.
    lambda each: name_weights(each.graph, each.layers),
    # No node is computed twice, so keys and values are written to the rows of one node.
    lambda each: merge_equal(each.graph),
    # One token attends to a shared cache in place.
    attend_in_place,
    # A number has the axes of a tensor whose last axis has one entry, which ONNX Runtime computes faster.
    operator_rewrites.add_axes_of_numbers,
    # No constant is stored twice, and no node is computed twice.
    lambda each: merge_equal(each.graph),
    # Nodes and tensors have names that begin with the path of their layer.
    lambda each: name_after_layers(each.graph),
)


def run_passes(each: Graph) -> None:
    """Runs all passes in order."""
    order_needed(each.graph)
    for run in PASSES:
        if isinstance(run, Rule):
            each.outcomes += run.apply(each.graph, each.sizes)
        else:
            run(each)
        drop_unneeded(each.graph)
