"""Models in half precision: exported as a float32 rebuild unless half precision is asked for.

The runtimes have no bfloat16 kernels to speak of, and float16 differs between them by more than a comparison can allow.
"""

from collections.abc import Iterable
from typing import Any

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.model.rebuild.cloning import with_dtype
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import all_layers


def half_dtypes(layers: Iterable[Any]) -> list[str]:
    """Returns the half-precision types that the layers compute in or keep weights in."""
    dtypes = {dtype for layer in layers for dtype in (layer.compute_dtype, layer.variable_dtype)}
    return sorted(dtypes & {"bfloat16", "float16"})


def in_export_precision(
    model: Any, input_signature: Any, wanted: str | None, format: Format
) -> tuple[list[Any], Any, list[str]]:
    """Returns the model to export, followed by its layers, its signature, and what differs from the given one.

    Args:
        model: The Keras model.
        input_signature: As it was given. A `Signature` is returned in the other precision.
        wanted: "float32", of which only models of half precision are made again; "float16"; or None for any.
        format: For the error.

    Raises:
        UnsupportedError: If the model must be made again and cannot be.
    """
    layers = all_layers(model)
    found = half_dtypes(layers)
    as_wanted = ["float16"] if wanted == "float16" else []
    if wanted is None or found == as_wanted:
        return layers, input_signature, []
    given = " and ".join(found) or "float32"
    try:
        layers = all_layers(with_dtype(model, wanted))
        if half_dtypes(layers) != as_wanted:
            raise ValueError(f"some of its layers compute in {given} whatever their policy.")
    except ValueError as error:
        raise UnsupportedError(
            format,
            model.name,
            f"it computes in {given} and cannot be made again in {wanted}: {error} "
            f"Build it under the policy {wanted!r}, load the weights, and export that.",
        ) from error
    if isinstance(input_signature, Signature):
        input_signature = input_signature.with_dtype(wanted)
    note = f"The model computes in {given}; exported is the same model with the same weights in {wanted}."
    return layers, input_signature, [note]
