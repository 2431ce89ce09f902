"""Transpositions stay out of branches and loop bodies.

tf2onnx 1.17 moves a transposition towards what reads it, and swaps it with a node of a subgraph as if both were in one
graph. The subgraph's result is then not transposed at all, and a square input hides it.
"""

from typing import Any


def register_subgraphs() -> None:
    """Puts the sound rule in the place of tf2onnx's. A second call changes nothing."""
    from tf2onnx.optimizer.transpose_optimizer import TransposeOptimizer

    move = TransposeOptimizer._handle_nhwc_tranpose
    if move.__module__ == __name__:
        return

    def move_within_graph(optimizer: Any, transposition: Any) -> bool:
        readers = optimizer._g.find_output_consumers(transposition.output[0])
        return all(reader.graph is optimizer._g for reader in readers) and move(optimizer, transposition)

    TransposeOptimizer._handle_nhwc_tranpose = move_within_graph
