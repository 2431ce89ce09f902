"""Other forms of the operators whose kernels in TFLite Micro lack a type, and joins of ten tensors at most."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor
from keras_pe.export.formats.litert_synonyms import write_negative, write_pack, write_unpack

_MOST_PARTS = 10
Rules = Mapping[str, Callable[[Editor, Any, int], bool]]


def with_micro_kernels(editor: Editor, operators: Iterable[Any]) -> list[Any]:
    """Returns operators that compute the same, in types of the kernels where such a form is known.

    Args:
        editor: The subgraph, without operators.
        operators: The operators of the subgraph. An operator with an unknown size stays.
    """
    for rules in (_TYPES, _PARTS):
        for operator in operators:
            rule = rules.get(editor.kind(operator))
            tensors = [int(number) for number in (*operator.inputs, *operator.outputs) if number >= 0]
            is_sized = all(size >= 0 for number in tensors for size in editor.shape(number))
            if rule is None or not is_sized or not rule(editor, operator, int(operator.outputs[0])):
                editor.operators.append(operator)
        operators, editor.operators = editor.operators, []
    return list(operators)


def _choice_of_integers(editor: Editor, operator: Any, output: int) -> bool:
    """Writes a choice of int32 as the sum of two products, one with the condition and one with its opposite."""
    condition, *choices = map(int, operator.inputs)
    shape = editor.shape(condition)
    if editor.dtype(output) != "int32" or (editor.kind(operator) == "SELECT" and shape != editor.shape(output)):
        return False
    opposite, parts = editor.tensor(shape, condition), list[int]()
    editor.add("LOGICAL_NOT", [condition], [opposite], "LogicalNotOptions")
    for flag, choice in zip((condition, opposite), choices, strict=True):
        number = editor.tensor(shape, output)
        editor.add("CAST", [flag], [number])
        parts.append(editor.tensor(np.broadcast_shapes(shape, editor.shape(choice)), output))
        editor.add("MUL", [number, choice], [parts[-1]], "MulOptions")
    editor.add("ADD", parts, [output], "AddOptions")
    return True


def _moved_flags(editor: Editor, operator: Any, output: int) -> bool:
    """Moves truth values as float32 numbers, which are compared with zero."""
    source, *places = map(int, operator.inputs)
    if editor.dtype(source) != "bool":
        return False
    numbers, found = (editor.tensor(editor.shape(each), each, "float32") for each in (source, output))
    editor.add("CAST", [source], [numbers])
    editor.add_like(operator, [numbers, *places], [found])
    return _is_nonzero(editor, found, output)


def _cast(editor: Editor, operator: Any, output: int) -> bool:
    return editor.dtype(output) == "bool" and _is_nonzero(editor, int(operator.inputs[0]), output)


def _is_nonzero(editor: Editor, number: int, output: int) -> bool:
    zero = editor.constant(np.zeros((), editor.dtype(number)), output)
    editor.add("NOT_EQUAL", [number, zero], [output], "NotEqualOptions")
    return True


def _negative_integers(editor: Editor, operator: Any, output: int) -> bool:
    return editor.dtype(output) == "int32" and write_negative(editor, operator, output)


def _rows_of_flags(editor: Editor, operator: Any, output: int) -> bool:
    write = write_pack if editor.kind(operator) == "PACK" else write_unpack
    return editor.dtype(output) == "bool" and write(editor, operator, output)


def _join(editor: Editor, operator: Any, output: int) -> bool:
    """Joins ten tensors, then ten results."""
    parts, axis = [int(number) for number in operator.inputs], operator.builtinOptions.axis
    if len(parts) <= _MOST_PARTS:
        return False

    def join_group(group: Sequence[int]) -> int:
        if len(group) == 1:
            return group[0]
        shape = list(editor.shape(output))
        shape[axis] = sum(editor.shape(number)[axis] for number in group)
        result = editor.tensor(shape, output)
        editor.add_like(operator, group, [result])
        return result

    while len(parts) > _MOST_PARTS:
        parts = [join_group(parts[start : start + _MOST_PARTS]) for start in range(0, len(parts), _MOST_PARTS)]
    editor.add_like(operator, parts, [output])
    return True


_TYPES: Rules = {
    "CAST": _cast,
    **dict.fromkeys(("GATHER", "TRANSPOSE"), _moved_flags),
    "NEG": _negative_integers,
    **dict.fromkeys(("PACK", "UNPACK"), _rows_of_flags),
    **dict.fromkeys(("SELECT", "SELECT_V2"), _choice_of_integers),
}
_PARTS: Rules = {"CONCATENATION": _join}
