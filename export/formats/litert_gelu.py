"""GELU as sums, products and quotients, for devices that lack the operator."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_pe.export.artifacts.litert_editor import Editor

# The error function in float32 is x p(x^2) / q(x^2) between -4 and 4, and -1 or 1 beyond. The highest power is first.
# Source: Eigen 3.4, unsupported/Eigen/src/SpecialFunctions/SpecialFunctionsImpl.h, generic_fast_erf_float.
_NUMERATOR = (
    *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05),
    *(-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
)
_DENOMINATOR = (
    *(-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03),
    -1.42647390514189e-02,
)
_END = 4.0
_CUBES = 0.044715  # factor of the cube in the approximation by a hyperbolic tangent


def write_gelu(editor: Editor, operator: Any, output: int) -> bool:
    """Writes `x (1 + f(x)) / 2`, where f is the error function of `x / sqrt(2)`, or its approximation by TANH."""
    source = int(operator.inputs[0])
    if editor.dtype(source) != "float32":
        return False
    share = _tangent(editor, source) if operator.builtinOptions.approximate else _error_function(editor, source)
    half = _apply(editor, "MUL", source, 0.5)
    editor.add("MUL", [half, _apply(editor, "ADD", share, 1.0)], [output], "MulOptions")
    return True


def _tangent(editor: Editor, source: int) -> int:
    square = _apply(editor, "MUL", source, source)
    factor = _polynomial(editor, square, [np.sqrt(2 / np.pi) * _CUBES, np.sqrt(2 / np.pi)])
    result = editor.tensor(editor.shape(source), source)
    editor.add("TANH", [_apply(editor, "MUL", source, factor)], [result])
    return result


def _error_function(editor: Editor, source: int) -> int:
    number = _apply(editor, "MUL", source, np.sqrt(0.5))
    number = _apply(editor, "MINIMUM", _apply(editor, "MAXIMUM", number, -_END), _END)
    square = _apply(editor, "MUL", number, number)
    numerator = _apply(editor, "MUL", number, _polynomial(editor, square, _NUMERATOR))
    return _apply(editor, "DIV", numerator, _polynomial(editor, square, _DENOMINATOR))


def _polynomial(editor: Editor, number: int, factors: Sequence[float]) -> int:
    """Returns the value of a polynomial by Horner's rule."""
    first, *others, last = factors
    total = _apply(editor, "MUL", number, first)
    for factor in others:
        total = _apply(editor, "MUL", _apply(editor, "ADD", total, factor), number)
    return _apply(editor, "ADD", total, last)


def _apply(editor: Editor, kind: str, first: int, second: int | float) -> int:
    """Returns the result of an operator on a tensor, and on another or a constant."""
    other = second if isinstance(second, int) else editor.constant(np.array(second, np.float32), first)
    result = editor.tensor(editor.shape(first), first)
    editor.add(kind, [first, other], [result], _OPTIONS[kind])
    return result


_OPTIONS = {
    **{kind: f"{kind.title()}Options" for kind in ("ADD", "DIV", "MUL")},
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimumOptions"),
}
"""The name of the options of each operator in LiteRT's schema."""
