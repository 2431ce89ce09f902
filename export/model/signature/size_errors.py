"""The sentences of the error for a model that cannot be called at the tried sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.dimensions import Kind, name_axes, named_sizes
from keras_pe.export.model.watch.known_values import is_integer
from keras_pe.export.model.watch.nested_arguments import Shape, sized_shape


def broken_rule(inputs: Sequence[Any], input_signature: Any, model: str) -> str:
    """Returns the first words of the error for a model that cannot be called."""
    if inputs:
        return f"`inputs` must fit the model: {model!r} cannot be called on the arrays that were given for"
    rule = "`model` must take plain values" if input_signature is None else "`input_signature` must fit the model"
    return f"{rule}: {model!r} cannot be called on zeros of"


def ways_out(
    names: Sequence[str], shapes: Sequence[Shape], dtypes: Sequence[str], recorded: Sequence[tuple[int | None, ...]]
) -> str:
    """Returns sentences with the Python code of arguments that pass values and sizes, and of a cast of whole numbers.

    Args:
        names: The model's own names of its inputs.
        shapes: The shapes of the inputs.
        dtypes: The dtypes of the inputs.
        recorded: The shapes of the first inputs in a recorded call. The arguments contain their sizes.
    """
    named = name_axes(shapes)
    sizes = {dim: 64 for shape in named for dim in shape if isinstance(dim, str)}
    sizes |= dict(named_sizes(named, recorded))
    batches = {name for name in sizes if Kind.from_name(name, named) is Kind.BATCH}
    lengths = {name: size for name, size in sizes.items() if name not in batches} or sizes
    sizes |= dict.fromkeys(batches, 2)
    filled = [("a", "object") if dtype == "string" else (0, dtype) for dtype in dtypes]
    arrays = (
        f"{name!r}: numpy.full({sized_shape(shape, sizes)}, {value!r}, {dtype!r})"
        for name, shape, (value, dtype) in zip(names, named, filled, strict=True)
    )
    examples = f"give an example, or several, with your values: inputs={{{', '.join(arrays)}}}"
    fixed = "fixed in `input_signature`"
    given = f"give them, with your numbers: sizes={lengths}, or {fixed}" if lengths else f"give them {fixed}"
    described = zip(names, shapes, dtypes, strict=True)
    images = [repr(name) for name, shape, dtype in described if is_integer(dtype) and len(shape) > 2]  # ids have 2 axes
    text = f"If it takes certain values only, {examples}. If it takes certain sizes only, {given}."
    if images:
        text += f" If a layer takes floats only, put keras.layers.Rescaling(1.0) behind {' and '.join(images)}."
    return text


def beyond_table(error: UnknownSizesError, given: Mapping[str, Sequence[int]], model: str) -> str:
    """Returns the text for sizes of the caller beyond the table of a layer; an empty text for any other error."""
    rows = error.rows or 0
    long = {name: max(own) for name, own in given.items() if max(own) > rows}
    if not (rows and long):
        return ""
    received = ", ".join(f"{name} {size}" for name, size in long.items())
    return (
        f"`sizes` must be within the tables of {model!r}: {error}. Received: {received}. "
        f"Pass sizes={dict.fromkeys(long, rows)}, or make the table of the layer longer."
    )
