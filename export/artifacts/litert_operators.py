"""The operators of a LiteRT file, with the shapes of their tensors."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from keras_pe.export.artifacts.litert_file import element_types


@dataclass(frozen=True)
class Tensor:
    """A tensor of a LiteRT file.

    Attributes:
        name: The name of the tensor.
        shape: The sizes; -1 for an unknown size.
        dtype: The element type, such as "float32".
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Operator:
    """An operator of a LiteRT file.

    Attributes:
        kind: The type, such as "CONV_2D".
        inputs: The inputs, without the absent ones.
        outputs: The outputs.
    """

    kind: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @property
    def path(self) -> str:
        """The path of the operator in the traced graph: the name of its first output; empty without outputs."""
        # The name of a fused operator joins the names of its parts.
        return self.outputs[0].name.partition(";")[0] if self.outputs else ""


def read_operators(content: bytes) -> tuple[Operator, ...]:
    """Returns the operators of a file, also those in the bodies of loops and in branches."""
    from ai_edge_litert import schema_py_generated as schema

    model, types = schema.ModelT.InitFromPackedBuf(content, 0), element_types()
    kinds = {number: kind for kind, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    codes = [kinds[max(code.builtinCode, code.deprecatedBuiltinCode)] for code in model.operatorCodes]
    return tuple(operator for graph in model.subgraphs for operator in _operators(graph, codes, types))


def _operators(graph: Any, codes: Sequence[str], types: dict[int, str]) -> Iterator[Operator]:
    tensors = [_tensor(each, types) for each in graph.tensors]
    for operator in graph.operators if graph.operators is not None else ():
        ends = ([tensors[number] for number in end if number >= 0] for end in (operator.inputs, operator.outputs))
        inputs, outputs = map(tuple, ends)
        yield Operator(codes[operator.opcodeIndex], inputs, outputs)


def _tensor(tensor: Any, types: dict[int, str]) -> Tensor:
    declared = tensor.shapeSignature if tensor.shapeSignature is not None else tensor.shape
    shape = tuple(int(size) for size in declared) if declared is not None else ()
    return Tensor((tensor.name or b"").decode(), shape, types.get(tensor.type, "unknown"))
