"""One order of a graph, in which nothing is computed twice, so that two exports of a model agree.

tf2onnx orders nodes by hashes. Here they come in the order in which the outputs need them.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from keras_pe.export.artifacts.onnx_model import bodies, needed_names


def make_canonical(graph: Any) -> dict[str, str]:
    """Orders the nodes and constants of an `onnx.GraphProto` in place; what no output needs is dropped.

    Returns:
        Which tensor stands for each that the graph computed or held; what was merged is another one.
    """
    order_needed(graph)
    merged = _merge(graph, {})
    order_needed(graph)
    return merged


def order_needed(graph: Any) -> None:
    """Orders nodes and constants of an `onnx.GraphProto` in place as its outputs need them, and drops the others."""
    for node in graph.node:
        for body in bodies(node):
            order_needed(body)
    producer = {output: i for i, node in enumerate(graph.node) for output in node.output if output}
    order: dict[int, None] = {}
    for output in graph.output:
        _visit(graph, producer, output.name, order)
    nodes = [graph.node[i] for i in order]
    constants = {tensor.name: tensor for tensor in graph.initializer}
    used = dict.fromkeys(name for node in nodes for name in needed_names(node) if name in constants)
    used |= dict.fromkeys(output.name for output in graph.output if output.name in constants)
    for field, kept in ((graph.node, nodes), (graph.initializer, [constants[name] for name in used])):
        copies = [type(item).FromString(item.SerializeToString(deterministic=True)) for item in kept]
        del field[:]
        field.extend(copies)
    del graph.value_info[:]


def _visit(graph: Any, producer: dict[str, int], name: str, order: dict[int, None]) -> None:
    """Appends what the name needs, depth first, without recursion: graphs are deeper than Python's stack."""
    waiting = [(producer[name], False)] if name in producer else []
    while waiting:
        index, is_complete = waiting.pop()
        if index in order:
            continue
        if is_complete:
            order[index] = None
            continue
        waiting.append((index, True))
        needed = [producer[name] for name in needed_names(graph.node[index]) if name in producer]
        waiting.extend((i, False) for i in reversed(needed) if i not in order)


def _merge(graph: Any, outer: dict[str, str]) -> dict[str, str]:
    """Lets what is computed twice be computed once, and returns what stands for what now.

    tf2onnx does it too, but picks the survivor by chance.
    """
    kept = dict(outer)
    found: dict[Any, Sequence[str]] = {}
    outputs = {output.name for output in graph.output}
    for tensor in graph.initializer:
        first = found.setdefault(_content(tensor), [tensor.name])
        kept[tensor.name] = first[0]
    for node in graph.node:
        node.input[:] = [kept.get(name, name) for name in node.input]
        for body in bodies(node):
            _merge(body, kept)
        attributes = sorted(_digest(attribute.SerializeToString(deterministic=True)) for attribute in node.attribute)
        key = (node.domain, node.op_type, *node.input, len(node.output), *attributes)
        first = node.output if outputs.intersection(node.output) else found.setdefault(key, list(node.output))
        kept.update(zip(node.output, first, strict=True))
    return kept


def _content(tensor: Any) -> tuple[int, tuple[int, ...], bytes]:
    from onnx import numpy_helper

    array = numpy_helper.to_array(tensor)
    content = array.tobytes() if array.dtype != object else repr(array.tolist()).encode()
    return tensor.data_type, tuple(tensor.dims), _digest(content)


def _digest(content: bytes) -> bytes:
    """Returns what stands for the content: that of every constant and branch would be held at once."""
    return hashlib.blake2b(content, digest_size=32).digest()
