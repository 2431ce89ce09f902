"""The operators of a LiteRT file, with the shapes of their tensors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keras_pe.export.artifacts.litert_file import element_types, operator_kind


@dataclass(frozen=True)
class Tensor:
    """A tensor of a LiteRT file.

    Attributes:
        name: The name of the tensor.
        shape: The sizes; -1 for an unknown size.
        dtype: The element type, such as "float32".
        is_stored: Whether the file has the values of the tensor.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_stored: bool = False


@dataclass(frozen=True)
class Operator:
    """An operator of a LiteRT file.

    Attributes:
        kind: The type, such as "CONV_2D".
        inputs: The inputs, without the absent ones.
        outputs: The outputs.
        options: The numbers among the options, by the name in the schema, such as {"shrinkAxisMask": 1}.
        is_in_body: Whether the operator is in the body of a loop or a branch.
    """

    kind: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    options: Mapping[str, int] = field(default_factory=dict, hash=False)
    is_in_body: bool = False

    @property
    def path(self) -> str:
        """The path of the operator in the traced graph: the name of its first output; empty without outputs."""
        # The name of a fused operator joins the names of its parts.
        return self.outputs[0].name.partition(";")[0] if self.outputs else ""

    @property
    def scope(self) -> str:
        """The name of the operator in a recipe of the LiteRT quantizer."""
        return "".join(f"{tensor.name};" for tensor in self.outputs or self.inputs if tensor.name)


def read_operators(content: bytes) -> tuple[Operator, ...]:
    """Returns the operators of a file, also those in the bodies of loops and in branches."""
    from ai_edge_litert import schema_py_generated as schema

    model, types = schema.ModelT.InitFromPackedBuf(content, 0), element_types()
    codes = [operator_kind(code) for code in model.operatorCodes]
    signed = {each.subgraphIndex for each in model.signatureDefs or ()} or {0}
    return tuple(
        operator
        for number, graph in enumerate(model.subgraphs)
        for operator in _operators(model, graph, codes, types, number not in signed)
    )


def _operators(
    model: Any, graph: Any, codes: Sequence[str], types: dict[int, str], is_body: bool
) -> Iterator[Operator]:
    tensors = [_tensor(each, types, model.buffers[each.buffer].data is not None) for each in graph.tensors]
    for operator in graph.operators if graph.operators is not None else ():
        ends = ([tensors[number] for number in end if number >= 0] for end in (operator.inputs, operator.outputs))
        inputs, outputs = map(tuple, ends)
        options = {} if operator.builtinOptions is None else vars(operator.builtinOptions)
        numbers = {name: value for name, value in options.items() if isinstance(value, int)}
        yield Operator(codes[operator.opcodeIndex], inputs, outputs, numbers, is_body)


def _tensor(tensor: Any, types: dict[int, str], is_stored: bool) -> Tensor:
    declared = tensor.shapeSignature if tensor.shapeSignature is not None else tensor.shape
    shape = tuple(int(size) for size in declared) if declared is not None else ()
    return Tensor((tensor.name or b"").decode(), shape, types.get(tensor.type, "unknown"), is_stored)
