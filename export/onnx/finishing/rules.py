"""Rules: each writes one operator in place of a pattern of operators, or reports why the pattern stays.

onnxscript's rewriter has rules too, whose patterns are trees of a fixed form. The masks, factors and transpositions of
attention occur in any number and order. The nodes of that rewriter lose the layer of the nodes that they replace.
"""

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import LAYER, SAME_AS, TRACED, Node, all_nodes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes


@dataclass(frozen=True)
class Outcome:
    """A pattern that a rule replaced, or found and left.

    Attributes:
        layer: The path of the layer.
        operator: The operator of the rule.
        reason: The reason why the pattern stays; empty if the operator replaces it.
        traced: The TensorFlow operator that the pattern ends with.
    """

    layer: str
    operator: str
    reason: str
    traced: str


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

    def apply(self, graph: ir.Graph, sizes: KnownSizes) -> list[Outcome]:
        """Replaces the pattern in a graph and in the graphs inside its nodes, and returns the outcomes."""
        outcomes = list[Outcome]()
        for node in all_nodes(graph, *self.last):
            if node.graph is None:  # an earlier replacement removed the node
                continue
            reason, before = "", _replacements(node)
            try:
                self.rewrite(node, sizes)
            except NoMatchError as obstacle:
                reason = str(obstacle)
            if reason or _replacements(node) != before:
                layer, traced = (str(node.meta.get(key, "")) for key in (LAYER, TRACED))
                outcomes.append(Outcome(layer, self.operator, reason, traced))
        return outcomes


def _replacements(node: Node) -> list[ir.Value | None]:
    """Returns the value that replaces each result of a node; None for a result that stays."""
    return [result.meta.get(SAME_AS) for result in node.outputs]


def rule(operator: str, *last: str) -> Callable[[Callable[[Node, KnownSizes], None]], Rule]:
    """Makes a rule of a function; see `Rule`."""
    return lambda rewrite: Rule(operator, last, rewrite)
