"""Rules that write one operator in place of several, and note the reason if several stay.

onnxscript's rewriter has rules too, whose patterns are trees of a fixed form. Masks, factors and turns of attention
come in any number and order, and its new nodes lose the layer of those that they replace.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from keras_pe.export.onnx.finishing.graph_edits import LAYER, Node, graphs, nodes
from keras_pe.export.onnx.finishing.symbolic_sizes import KnownSizes

Reasons = dict[str, dict[str, str]]
"""Why operators stay several: by the path of the layer, and the name of the operator that would replace them."""


class NoMatchError(Exception):
    """Says why what looks like an operator is not replaced by it."""


@dataclass(frozen=True)
class Rule:
    """One operator for several.

    Attributes:
        operator: Its name, under which `--explain` gives the reason why it is not written.
        last: The operators that the pattern may end with.
        match: Returns what the pattern is made of; None for other nodes. Raises `NoMatchError` for what looks like it.
        replace: Writes the operator in place of a node and of what it is made of.
    """

    operator: str
    last: tuple[str, ...]
    match: Callable[[Node, KnownSizes], Any]
    replace: Callable[[Node, Any, KnownSizes], None]

    def apply(self, graph: ir.Graph, sizes: KnownSizes, reasons: Reasons) -> None:
        """Replaces the pattern in a graph and in those inside its nodes, and notes the reasons."""
        for each in graphs(graph):
            for node in nodes(each, *self.last):
                try:
                    found = self.match(node, sizes)
                except NoMatchError as reason:
                    reasons.setdefault(node.meta.get(LAYER, ""), {})[self.operator] = str(reason)
                else:
                    if found is not None:
                        self.replace(node, found, sizes)
