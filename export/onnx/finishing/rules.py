"""Rules: each writes one operator in place of a pattern of operators, or reports why the pattern stays.

onnxscript's rewriter has rules too, whose patterns are trees of a fixed form. The masks, factors and transpositions of
attention occur in any number and order. The nodes of that rewriter lose the layer of the nodes that they replace.
"""

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import LAYER, Node, all_nodes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

Reasons = dict[str, dict[str, str]]
"""The reasons why patterns stay, by the path of the layer and the operator that would replace them."""


class NoMatchError(Exception):
    """The operator cannot replace a pattern that looks like it. The message is the reason that `--explain` prints."""


@dataclass(frozen=True)
class Rule:
    """A replacement of a pattern of operators by one operator.

    Attributes:
        operator: The operator, which names the reason in `--explain` if the pattern stays.
        last: The operators that the pattern may end with.
        rewrite: Replaces the pattern that ends at a node, if there is one. Raises `NoMatchError` if the operator cannot
            compute the pattern.
    """

    operator: str
    last: tuple[str, ...]
    rewrite: Callable[[Node, KnownSizes], None]

    def apply(self, graph: ir.Graph, sizes: KnownSizes, reasons: Reasons | None = None) -> None:
        """Replaces the pattern in a graph and in the graphs inside its nodes, and adds the reasons why some stay."""
        for node in all_nodes(graph, *self.last):
            try:
                if node.graph is not None:  # an earlier replacement may have removed the node
                    self.rewrite(node, sizes)
            except NoMatchError as reason:
                if reasons is not None:
                    reasons.setdefault(node.meta.get(LAYER, ""), {})[self.operator] = str(reason)


def rule(operator: str, *last: str) -> Callable[[Callable[[Node, KnownSizes], None]], Rule]:
    """Makes a rule of a function; see `Rule`."""
    return lambda rewrite: Rule(operator, last, rewrite)
