"""A LiteRT file: its signature, read as a flatbuffer. The interpreter trusts a file and may crash on it."""

import functools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_pe.export.artifacts.artifact import LITERT_IDENTIFIER, Artifact, Format, TensorInfo, description_from_json
from keras_pe.export.dependencies import require

METADATA = "keras_pe"  # the name under which an exporter leaves its description in the file
SIGNATURE = "serving_default"
_APPENDED = 2  # least offset of values behind the flatbuffer; 0 and 1 stand for none
_FOREIGN = "Flex"  # begins the names of operators that TensorFlow has and LiteRT has not

_NUMBERS = {name: np.dtype(name) for name in ("float64", "float32", "float16", "int8", "uint8")}
_STORED = _NUMBERS | {name: np.dtype(name) for name in ("bool", "int16", "int32", "int64")}


def read_litert(path: Path) -> Artifact:
    """Returns the inputs and outputs of the file, and the metadata of its exporter.

    Raises:
        ValueError: With the end of a sentence about the file, if it cannot be read.
    """
    require("read_artifact", "ai_edge_litert", extra="litert")
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    try:
        model = schema.Model.GetRootAs(content, 0)
        known = _description(model)
        inputs, outputs = _tensors(model)
    except Exception as error:  # A damaged offset leads the reader to any bytes.
        raise ValueError("is not a whole LiteRT file.") from error
    given: dict[str, Any] = {"inputs": inputs, "outputs": outputs} if known is None else description_from_json(known)
    return Artifact(Format.LITERT, path, nbytes=len(content), seconds=0.0, **given)


def read_whole(path: Path) -> bytes:
    """Returns a file with all values inside the flatbuffer. The LiteRT quantizer appends weights from 256 KiB on."""
    from ai_edge_litert import schema_py_generated as schema

    content = path.read_bytes()
    known = schema.Model.GetRootAs(content, 0)
    if all(known.Buffers(number).Offset() < _APPENDED for number in range(known.BuffersLength())):
        return content
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for buffer in model.buffers:
        if buffer.offset >= _APPENDED:
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    return pack_model(model)


def constants(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns the numbers that are stored in the file, by the name of their tensor; what is empty is left out.

    A tensor without bits of its own for each number, such as one of four bits, is left out as well. The borders of bins
    stand under the name of the tensor that has the numbers of the bins.
    """
    stored = {name: stored for name, _, stored in stored_tensors(path) if stored.dtype in _NUMBERS.values()}
    return stored | _borders(path)


def _borders(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns the borders of bins, which an operator has as an option instead of as a tensor."""
    from ai_edge_litert import schema_py_generated as schema

    model, found = schema.Model.GetRootAs(path.read_bytes(), 0), {}
    for graph in map(model.Subgraphs, range(model.SubgraphsLength())):
        for operator in map(graph.Operators, range(graph.OperatorsLength())):
            if operator.BuiltinOptionsType() == schema.BuiltinOptions.BucketizeOptions:
                options, given = schema.BucketizeOptions(), operator.BuiltinOptions()
                options.Init(given.Bytes, given.Pos)
                found[graph.Tensors(operator.Outputs(0)).Name().decode()] = options.BoundariesAsNumpy()
    return found


def quantized_constants(path: Path) -> dict[str, tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Returns the numbers that integers in the file stand for, and the step between two numbers, by the tensor's name.

    Both arrays have the shape of the tensor. A tensor without a scale is left out.
    """
    found = {}
    for name, tensor, stored in stored_tensors(path):
        known = tensor.Quantization()
        if known is None or not known.ScaleLength() or stored.dtype.kind not in "iu" or not stored.ndim:
            continue
        axis, several = known.QuantizedDimension(), known.ScaleLength() > 1
        shape = [-1 if several and place == axis else 1 for place in range(stored.ndim)]
        scale = known.ScaleAsNumpy().astype(np.float64).reshape(shape)
        zero = known.ZeroPointAsNumpy() if known.ZeroPointLength() else np.zeros(1)
        zero = zero.astype(np.float64).reshape(shape if zero.size > 1 else [1] * stored.ndim)
        numbers = ((stored - zero) * scale).astype(np.float32)
        found[name] = numbers, np.broadcast_to(scale, stored.shape).astype(np.float32)
    return found


def read_scales(path: Path) -> Iterator[tuple[str, str, bool, npt.NDArray[Any], npt.NDArray[Any]]]:
    """Yields the name of each tensor with a scale, its type, whether the file stores it, its scales and zero points."""
    from ai_edge_litert import schema_py_generated as schema

    model, dtypes = schema.Model.GetRootAs(read_whole(path), 0), element_types()
    graphs = map(model.Subgraphs, range(model.SubgraphsLength()))
    for tensor in (graph.Tensors(i) for graph in graphs for i in range(graph.TensorsLength())):
        known = tensor.Quantization()
        if known is not None and known.ScaleLength():
            is_stored = model.Buffers(tensor.Buffer()).DataLength() > 0
            zero = known.ZeroPointAsNumpy() if known.ZeroPointLength() else np.zeros(1)
            yield tensor.Name().decode(), dtypes[tensor.Type()], is_stored, known.ScaleAsNumpy(), zero


def stored_tensors(path: Path) -> Iterator[tuple[str, Any, npt.NDArray[Any]]]:
    """Yields the name of each tensor whose numbers the file stores, the tensor, and the numbers."""
    from ai_edge_litert import schema_py_generated as schema

    model, dtypes = schema.Model.GetRootAs(read_whole(path), 0), element_types()
    graphs = map(model.Subgraphs, range(model.SubgraphsLength()))
    names = set[str]()
    for number, tensor in enumerate(graph.Tensors(i) for graph in graphs for i in range(graph.TensorsLength())):
        buffer, dtype = model.Buffers(tensor.Buffer()), _STORED.get(dtypes[tensor.Type()])
        shape = [tensor.Shape(axis) for axis in range(tensor.ShapeLength())]
        if dtype is not None and buffer.DataLength() == dtype.itemsize * math.prod(shape) > 0:
            name = tensor.Name().decode()
            name = f"{name};{number}" if name in names else name
            names.add(name)
            yield name, tensor, buffer.DataAsNumpy().view(dtype).reshape(shape)


def conditions(path: Path) -> dict[str, int]:
    """Returns the tensors that the conditions of the graph decide by: their numbers in the file, by name."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(path.read_bytes(), 0)
    signature = _signature(model)
    graph = model.Subgraphs(0 if signature is None else signature.SubgraphIndex())
    operators = [graph.Operators(i) for i in range(graph.OperatorsLength())]
    codes = [model.OperatorCodes(each.OpcodeIndex()).BuiltinCode() for each in operators]
    found = [each.Inputs(0) for each, code in zip(operators, codes, strict=True) if code == schema.BuiltinOperator.IF]
    return {graph.Tensors(number).Name().decode(): int(number) for number in found}


@functools.cache
def operator_kinds() -> dict[int, str]:
    """Returns the names of LiteRT's operators, such as "CONV_2D", by their numbers."""
    from ai_edge_litert import schema_py_generated as schema

    return {number: kind for kind, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}


def operator_kind(code: Any) -> str:
    """Returns the type of the operators with a code, such as "CONV_2D"."""
    return operator_kinds()[max(code.builtinCode, code.deprecatedBuiltinCode)]


@functools.cache
def element_types() -> dict[int, str]:
    """Returns the names of the element types by their numbers."""
    from ai_edge_litert import schema_py_generated as schema

    return {number: key.lower() for key, number in vars(schema.TensorType).items() if isinstance(number, int)}


def _description(model: Any) -> str | None:
    for i in range(model.MetadataLength()):
        entry = model.Metadata(i)
        if entry.Name() == METADATA.encode():
            return str(model.Buffers(entry.Buffer()).DataAsNumpy().tobytes().decode())
    return None


def pack_model(model: Any) -> bytes:
    """Returns the bytes of a file.

    Args:
        model: The file as `schema.ModelT`.
    """
    import flatbuffers

    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), LITERT_IDENTIFIER)
    return bytes(builder.Output())


def chosen_signature(path: Path) -> str | None:
    """Returns the key of the signature that a file is read and run by; None for a file without one."""
    from ai_edge_litert import schema_py_generated as schema

    signature = _signature(schema.Model.GetRootAs(path.read_bytes(), 0))
    return None if signature is None else signature.SignatureKey().decode()


def signature_keys(path: Path) -> tuple[str, ...]:
    """Returns the keys of the signatures that a runtime chooses from: only `serving_default` if a file has it."""
    keys = all_signature_keys(path)
    return (SIGNATURE,) if SIGNATURE in keys else keys


def all_signature_keys(path: Path) -> tuple[str, ...]:
    """Returns the keys of all signatures of a file."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(path.read_bytes(), 0)
    return tuple(model.SignatureDefs(i).SignatureKey().decode() for i in range(model.SignatureDefsLength()))


def foreign_operators(path: Path) -> tuple[str, ...]:
    """Returns the types of TensorFlow's own operators in a file, which no interpreter has without TensorFlow."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(path.read_bytes(), 0)
    codes = (model.OperatorCodes(i).CustomCode() or b"" for i in range(model.OperatorCodesLength()))
    return tuple(sorted(code.decode().removeprefix(_FOREIGN) for code in codes if code.startswith(_FOREIGN.encode())))


def interface_names(inputs: Sequence[str], outputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the names of inputs and outputs in a file without a signature, from those of its tensors.

    An input is called by its name in the model that was converted, where the tensor's name still holds it.
    """
    plain = [name.removeprefix(f"{SIGNATURE}_").partition(":")[0] for name in inputs]
    return (plain if len({*plain}) == len(plain) else [*inputs]), [*outputs]


def _tensors(model: Any) -> tuple[tuple[TensorInfo, ...], ...]:
    signature = _signature(model)
    graph = model.Subgraphs(0 if signature is None else signature.SubgraphIndex())
    if signature is None:
        numbers = [[int(of(i)) for i in range(count)] for of, count in _ends(graph)]
        names = interface_names(*([graph.Tensors(number).Name().decode() for number in each] for each in numbers))
        named = [list(zip(*each, strict=True)) for each in zip(names, numbers, strict=True)]
    else:
        named = [sorted(each.items()) for each in signature_tensors(signature)]
    return tuple(tuple(_tensor_info(name, graph.Tensors(number)) for name, number in each) for each in named)


def read_interface(path: Path) -> tuple[tuple[TensorInfo, ...], ...]:
    """Returns the inputs and the outputs of a file."""
    from ai_edge_litert import schema_py_generated as schema

    return _tensors(schema.Model.GetRootAs(path.read_bytes(), 0))


def interface_order(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the place of each input among the inputs of the graph, by name; and the same of each output."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(path.read_bytes(), 0)
    signature = _signature(model)
    graph = model.Subgraphs(0 if signature is None else signature.SubgraphIndex())
    ends = [[int(of(i)) for i in range(count)] for of, count in _ends(graph)]
    if signature is None:
        names = interface_names(*([graph.Tensors(number).Name().decode() for number in each] for each in ends))
        inputs, outputs = ({name: place for place, name in enumerate(each)} for each in names)
        return inputs, outputs
    found = (
        {name: end.index(number) for name, number in each.items()}
        for each, end in zip(signature_tensors(signature), ends, strict=True)
    )
    inputs, outputs = found
    return inputs, outputs


def _ends(graph: Any) -> tuple[tuple[Any, int], tuple[Any, int]]:
    return (graph.Inputs, graph.InputsLength()), (graph.Outputs, graph.OutputsLength())


def _signature(model: Any) -> Any:
    """Returns the signature that Keras writes, or else the first with the most tensors; None if a file has none.

    Signatures beside that of a model most often compute a part of it.
    """
    signatures = [model.SignatureDefs(i) for i in range(model.SignatureDefsLength())]

    def rank(signature: Any) -> tuple[bool, int]:
        return signature.SignatureKey() != SIGNATURE.encode(), -signature.InputsLength() - signature.OutputsLength()

    return min(signatures, key=rank, default=None)


def signature_tensors(signature: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Returns the numbers of the tensors of the inputs, and of the outputs, of a signature by name."""
    ends = (signature.Inputs, signature.InputsLength()), (signature.Outputs, signature.OutputsLength())
    named = (map(entry, range(count)) for entry, count in ends)
    inputs, outputs = ({each.Name().decode(): each.TensorIndex() for each in end} for end in named)
    return inputs, outputs


def _tensor_info(name: str, tensor: Any) -> TensorInfo:
    if tensor.ShapeSignatureLength():
        dims = [tensor.ShapeSignature(i) for i in range(tensor.ShapeSignatureLength())]
    else:
        dims = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
    shape = (f"{name}_axis_{axis}" if dim < 0 else int(dim) for axis, dim in enumerate(dims))
    return TensorInfo(name, tuple(shape), element_types().get(tensor.Type(), "unknown"))
