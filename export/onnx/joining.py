"""Two Reshapes in a row as one, where that is sound.

tf2onnx 1.17 drops the first of any two. A 0 in the second's shape copies a size of the first's output, and would then
copy one of its input. It meets that in attention with a single head, whose Transpose it writes as a Reshape before.
"""

from typing import Any


def register_joining() -> None:
    """Puts the sound rule in the place of tf2onnx's. A second call changes nothing."""
    from tf2onnx.optimizer import back_to_back_optimizer

    back_to_back_optimizer._func_map[("Reshape",)] = _join


def _join(graph: Any, node: Any, consumers: list[Any]) -> list[Any]:
    if len(consumers) != 1 or consumers[0].type != "Reshape":
        return []
    shape = consumers[0].inputs[1]
    if not shape.is_const() or 0 in shape.get_tensor_value():
        return []
    graph.replace_inputs(consumers[0], [node.input[0], consumers[0].input[1]])
    graph.remove_node(node.name)
    return []
