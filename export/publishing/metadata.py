"""What an artifact says about itself: versions, the encodings in it, the names that had to change."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.dependencies import installed_version
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import dimensions_to_json
from keras_pe.export.model.watch.known_values import values_to_json
from keras_pe.version import __version__

LAYERS_KEY = "keras_pe.layers"
"""Where a file says which of its tensors each call of a layer returns: JSON, a list of names by the call's path."""

SIZES_KEY = "keras_pe.sizes"
"""Where an artifact says what its dynamic dimensions are, and which sizes they take."""

VALUES_KEY = "keras_pe.values"
"""Where an artifact tells which values its inputs take, as far as its exporter was told, for those who check it."""

NOTES_KEY = "keras_pe.notes"
"""Where an artifact says what differs from the model: JSON, a list of sentences."""

VERSION_KEY = "keras_pe.version"
"""Where an artifact says which release of this package has made it."""


def describe(
    layers: Sequence[Any], signature: Signature, packages: Sequence[str], notes: Sequence[str]
) -> dict[str, str]:
    """Returns the metadata of an artifact. The same model gives the same, whenever and wherever it is exported.

    Args:
        layers: The Keras model, then every layer in it.
        signature: Its signature.
        packages: The packages that made the artifact.
        notes: Sentences on what differs from the model.
    """
    encodings = {layer.name: layer.get_config() for layer in layers if _is_ours(layer)}
    told = signature.values.told
    values = {VALUES_KEY: values_to_json(told)} if told.ranges or told.examples else {}
    return {
        **values,
        "keras_pe.encodings": json.dumps(encodings, sort_keys=True),
        "keras_pe.model": layers[0].name,
        "keras_pe.names": json.dumps(dict(signature.renamed), sort_keys=True),
        NOTES_KEY: json.dumps(list(notes)),
        SIZES_KEY: dimensions_to_json(signature.dimensions),
        VERSION_KEY: __version__,
        **{f"version.{package}": installed_version(package) or "" for package in sorted(packages)},
    }


def draft(
    format: Format,
    destination: Path,
    layers: Sequence[Any],
    packages: Sequence[str],
    signature: Signature,
    notes: Sequence[str],
) -> Artifact:
    """Returns what an artifact says of itself, before its size and the time are known.

    Args:
        format: Its format.
        destination: Where it will stand.
        layers: The Keras model, then every layer in it.
        packages: The packages that make it.
        signature: The model's.
        notes: Sentences on what differs from the model.
    """
    metadata = describe(layers, signature, packages, notes)
    shapes = signature.inputs, signature.outputs
    return Artifact(format, destination, *shapes, nbytes=0, seconds=0.0, notes=tuple(notes), metadata=metadata)


def _is_ours(layer: Any) -> bool:
    return type(layer).__module__.startswith("keras_pe.layers.")
