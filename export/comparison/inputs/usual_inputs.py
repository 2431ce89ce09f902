"""Draws inputs that nearly every model takes."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.role import Role, range_roles
from keras_pe.export.comparison.inputs.sweep import draw_case
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.known_values import is_integer
from keras_pe.export.runtimes.runtime import Arrays, as_dtype

Draw = Callable[[Signature, Mapping[str, int], int], list[Case]]
"""A function of sizes and a seed that returns the cases to try, the best first."""


def numbers(signature: Signature, sizes: Mapping[str, int], seed: int) -> list[Case]:
    """Returns cases with drawn values, cases with known words only, and a case with values that the model takes.

    Integers are 0 and 1, which every embedding has, or entries of a vocabulary. Examples come first, if there are any,
    cut or repeated to the sizes.
    """
    roles = _roles(signature)
    words = {name: role for name, role in roles.items() if role.vocabulary.words}
    known = {
        name: replace(role, vocabulary=replace(role.vocabulary, entries=tuple(role.vocabulary.words), is_closed=True))
        for name, role in words.items()
    }
    drawn = [draw_case(signature.inputs, each, sizes, seed) for each in ([roles, roles | known] if words else [roles])]
    known_to_be_taken = {name: np.asarray(array) for name, array in signature.example(sizes).items()}
    inputs = [known_to_be_taken, *drawn] if signature.values.examples else [*drawn, known_to_be_taken]
    return [_case(each, sizes) for each in inputs]


def pixels(signature: Signature, sizes: Mapping[str, int], seed: int) -> list[Case]:
    """Returns a case with floats in the range of pixels, for models that expect them."""
    given = signature.values.ranges
    floats = (s.name for s in signature.inputs if is_float(as_dtype(s.dtype)) and s.name not in given)
    images = {name: Role("values", 0.0, 255.0) for name in floats}
    return [_case(draw_case(signature.inputs, _roles(signature) | images, sizes, seed), sizes)]


def _roles(signature: Signature) -> dict[str, Role]:
    known = signature.vocabularies
    roles = {name: Role("entries", vocabulary=vocabulary) for name, vocabulary in known.items()}
    whole = [spec.name for spec in signature.inputs if is_integer(spec.dtype)]
    roles |= {name: replace(roles.get(name, Role("values")), low=0, high=2) for name in whole}
    return range_roles(signature.values.ranges, roles)


def _case(inputs: Arrays, sizes: Mapping[str, int]) -> Case:
    return Case("drawn", inputs, "values that most models accept", sizes)
