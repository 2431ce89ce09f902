"""Joins LiteRT files into one file with a signature for each, and extracts one signature as a file."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_file import METADATA, SIGNATURE, pack_model, signature_tensors

_OF_SIGNATURE = f"{METADATA}/"  # begins the name of the description of a signature


def add_descriptions(content: bytes, texts: Mapping[str, str]) -> bytes:
    """Returns a file with descriptions in its metadata, which interpreters ignore.

    Args:
        content: The file.
        texts: The descriptions by the keys of signatures. `serving_default` is described as the file itself.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for key, text in texts.items():
        buffer, entry = schema.BufferT(), schema.MetadataT()
        buffer.data = np.frombuffer(text.encode(), np.uint8)
        entry.name = METADATA if key == SIGNATURE else f"{_OF_SIGNATURE}{key}"
        entry.buffer = len(model.buffers)
        model.buffers.append(buffer)
        model.metadata = [*(model.metadata or []), entry]
    return pack_model(model)


def described_signatures(path: Path) -> tuple[str, ...]:
    """Returns the keys of the signatures with a description of their own; empty if the file has one description.

    `serving_default` is the last key if it is not the first of these signatures, whose description it has.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(path.read_bytes(), 0)
    names = [model.Metadata(i).Name().decode() for i in range(model.MetadataLength())]
    signatures = map(model.SignatureDefs, range(model.SignatureDefsLength()))
    known = {each.SignatureKey().decode(): _calls(each) for each in signatures}
    keys = [key for name in names if (key := name.removeprefix(_OF_SIGNATURE)) != name and key in known]
    is_other = bool(keys) and known.get(SIGNATURE) not in (None, known[keys[0]])
    return (*keys, SIGNATURE) if is_other else tuple(keys)


def extract_signature(content: bytes, key: str) -> bytes:
    """Returns a file with one signature of another file, as `serving_default`, with its description.

    Args:
        content: A file of `merge_files` with descriptions.
        key: The signature. `serving_default` has the description of the file itself.

    Raises:
        ValueError: If the file lacks the signature.
    """
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromPackedBuf(content, 0)
    signature = next((each for each in model.signatureDefs or () if each.signatureKey == key.encode()), None)
    if signature is None:
        raise ValueError(f"The LiteRT file must have the signature {key!r}. Received: a file without it.")
    reached = [signature.subgraphIndex]
    for number in reached:  # the list grows by the bodies of loops and branches
        for _, _, body in _bodies(model.subgraphs[number]):
            if body not in reached:
                reached.append(body)
    model.subgraphs = [model.subgraphs[number] for number in reached]
    for graph in model.subgraphs:
        for options, name, number in [*_bodies(graph)]:
            options[name] = reached.index(number)
    signature.signatureKey, signature.subgraphIndex = SIGNATURE.encode(), 0
    model.signatureDefs = [signature]
    name = METADATA if key == SIGNATURE else f"{_OF_SIGNATURE}{key}"
    model.metadata = [each for each in model.metadata or () if each.name == name.encode()]
    for entry in model.metadata:
        entry.name = METADATA
    used = {0, *(each.buffer for graph in model.subgraphs for each in graph.tensors)}
    used |= {each.buffer for each in model.metadata}
    for place in {*range(len(model.buffers))} - used:
        model.buffers[place].data = None
    return pack_model(model)


def merge_files(contents: Iterable[tuple[str, bytes]]) -> bytes:
    """Returns one file with the signatures of several files. Equal constants are stored once.

    Args:
        contents: The files, each after the name that its signature gets. One file at a time is in memory, and the first
            one is also `serving_default`.
    """
    from ai_edge_litert import schema_py_generated as schema

    merged, signatures = _Merged(), []
    for key, content in contents:
        model = schema.ModelT.InitFromPackedBuf(content, 0)
        offset = merged.add(model)
        for signature in model.signatureDefs:
            signature.signatureKey, signature.subgraphIndex = key.encode(), signature.subgraphIndex + offset
            signatures.append(signature)
    default = schema.SignatureDefT(**{**vars(signatures[0]), "signatureKey": SIGNATURE.encode()})
    model.signatureDefs, model.metadata = [default, *signatures], None
    model.buffers, model.operatorCodes, model.subgraphs = merged.buffers, merged.codes, merged.graphs
    return pack_model(model)


class _Merged:
    """The subgraphs of several files, with common buffers and operator codes."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.buffers: list[Any] = [schema.BufferT()]  # the format demands an empty one in this place
        self.codes: list[Any] = []
        self.graphs: list[Any] = []
        self._stored: dict[bytes, int] = {}
        self._known: dict[tuple[Any, ...], int] = {}

    def add(self, model: Any) -> int:
        """Appends the subgraphs of a file, and returns the number of the first of them."""
        from ai_edge_litert import schema_py_generated as schema

        offset = len(self.graphs)
        codes = [self._place_code(code) for code in model.operatorCodes]
        buffers = [self._place_buffer(buffer) for buffer in model.buffers]
        # The arrays of subgraphs are views into the file: read them from a copy without constants, to free the file.
        model.buffers = [schema.BufferT() for _ in buffers]
        model = schema.ModelT.InitFromPackedBuf(pack_model(model), 0)
        for graph in model.subgraphs:
            for tensor in graph.tensors:
                tensor.buffer = buffers[tensor.buffer]
            for operator in graph.operators or ():
                operator.opcodeIndex = codes[operator.opcodeIndex]
            for options, name, number in [*_bodies(graph)]:
                options[name] = number + offset
            self.graphs.append(graph)
        return offset

    def _place_code(self, code: Any) -> int:
        key = (code.builtinCode, code.deprecatedBuiltinCode, code.customCode, code.version)
        if key not in self._known:
            self._known[key] = len(self.codes)
            self.codes.append(code)
        return self._known[key]

    def _place_buffer(self, buffer: Any) -> int:
        if buffer.data is None or not len(buffer.data):
            return 0
        key = hashlib.sha256(buffer.data).digest()
        if key not in self._stored:
            self._stored[key] = len(self.buffers)
            buffer.data = buffer.data.copy()
            self.buffers.append(buffer)
        return self._stored[key]


def _bodies(graph: Any) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Yields the options, the name of the option, and its value for each option that is the number of a subgraph."""
    for operator in graph.operators or ():
        options = {} if operator.builtinOptions is None else vars(operator.builtinOptions)
        yield from ((options, name, value) for name, value in options.items() if "SubgraphIndex" in name)


def _calls(signature: Any) -> tuple[Any, ...]:
    """Returns the subgraph of a signature, and the numbers of its inputs and outputs by name."""
    return signature.SubgraphIndex(), *signature_tensors(signature)
