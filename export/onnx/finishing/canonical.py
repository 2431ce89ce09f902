"""One order and one set of names for a graph, so that two exports of a model agree in every byte.

tf2onnx numbers its names with a counter of the process, puts memory addresses into some of them, and orders nodes by
hashes. Here nodes come in the order in which the outputs need them, named by the scope they came from.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from keras_pe.export.model.signature.portable_names import UniqueNames


def make_canonical(graph: Any, fixed: Iterable[str]) -> dict[str, str]:
    """Orders and names the nodes and constants of an `onnx.GraphProto` in place; what no output needs is dropped.

    Args:
        graph: The graph.
        fixed: Names that stay: inputs, outputs and weights.

    Returns:
        The new names of what the graph has computed, by the old ones, those of what was merged among them.
    """
    names = {name: name for name in fixed}
    names[""] = ""
    _order(graph)
    merged = _merge(graph, {})
    _order(graph)
    _rename(graph, names, UniqueNames(names))
    return {old: names[kept] for old, kept in merged.items() if old and kept in names}


def _order(graph: Any) -> None:
    for node in graph.node:
        for body in bodies(node):
            _order(body)
    producer = {output: i for i, node in enumerate(graph.node) for output in node.output if output}
    order: dict[int, None] = {}
    for output in graph.output:
        _visit(graph, producer, output.name, order)
    nodes = [graph.node[i] for i in order]
    constants = {tensor.name: tensor for tensor in graph.initializer}
    used = dict.fromkeys(name for node in nodes for name in _needed(node) if name in constants)
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
        needed = [producer[name] for name in _needed(graph.node[index]) if name in producer]
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


def _needed(node: Any) -> Iterator[str]:
    yield from node.input
    for body in bodies(node):
        own = {x.name for x in (*body.input, *body.initializer)} | {x for inner in body.node for x in inner.output}
        yield from (name for inner in body.node for name in _needed(inner) if name not in own)
        yield from (output.name for output in body.output if output.name not in own)


def bodies(node: Any) -> Iterator[Any]:
    """Returns the graphs in the attributes of a node, such as the branches of an `If`."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: Any) -> Iterator[Any]:
    """Returns the nodes of a graph, each before those of the graphs in its attributes."""
    for node in graph.node:
        yield node
        for body in bodies(node):
            yield from all_nodes(body)


def _rename(graph: Any, names: dict[str, str], free: UniqueNames) -> None:
    def rename(old: str, base: str) -> str:
        if old not in names:
            names[old] = free.give(base)
        return names[old]

    for value in graph.input:
        value.name = rename(value.name, "input")
    for tensor in graph.initializer:
        tensor.name = rename(tensor.name, "constant")
        tensor.ClearField("doc_string")
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [rename(name, _base(name, node.op_type)) for name in node.output]
        node.name = next(name for name in node.output if name)
        node.ClearField("doc_string")
        attributes = sorted(node.attribute, key=lambda attribute: attribute.name)
        copies = [type(item).FromString(item.SerializeToString(deterministic=True)) for item in attributes]
        del node.attribute[:]
        node.attribute.extend(copies)
        for body in bodies(node):
            for value in (*body.input, *body.output):
                for dim in value.type.tensor_type.shape.dim:
                    dim.ClearField("dim_param")  # numbered by tf2onnx, and only the model's own have a meaning
            _rename(body, dict(names), free)
            body.name = f"{node.name}_body"
    for value in graph.output:
        value.name = names.get(value.name, value.name)
    graph.ClearField("doc_string")


def _base(name: str, otherwise: str) -> str:
    """Returns the layer scopes of a TensorFlow name without the counters of tf2onnx and of TensorFlow's functions."""
    plain = re.sub(r"^\w+_(true|false|body|cond)_\d+_|__\d+|:\d+$", "", name)
    return plain if "/" in plain and "__inference" not in plain else otherwise
