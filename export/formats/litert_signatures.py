"""One LiteRT file with a signature for each set of sizes, over one copy of the weights."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.artifact import NOTES_KEY, Artifact, Format, description_to_json
from keras_pe.export.artifacts.litert_file import SIGNATURE
from keras_pe.export.artifacts.litert_merging import add_descriptions, merge_files
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.errors import InvalidArtifactError
from keras_pe.export.model.sizes.dimensions import checked_sizes, sizes_in_words
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.staging import publish_file, staged_artifact
from keras_pe.export.runtimes.shared_workers import tensorflow_process
from keras_pe.export.runtimes.worker import Worker

_SEED = 0


def check_size_sets(sizes: Sequence[Any], target: str | None) -> list[dict[str, tuple[int, ...]]]:
    """Returns the sets of sizes that a caller passed, each with one size for each of the same dimensions.

    Raises:
        TypeError: If an element is not a mapping.
        ValueError: If the export has no target, or the sets are not such sets.
    """
    if not sizes or not all(isinstance(each, Mapping) for each in sizes):
        raise ArgTypeError("sizes", f"must be a mapping, or a list of mappings. Received: sizes={sizes!r}.")
    if target is None:
        raise ArgValueError("sizes", "must be one mapping without a `target`. Received: several mappings.")
    found = [checked_sizes(each) for each in sizes]
    is_single = all(len(own) == 1 for each in found for own in each.values())
    if not is_single or any(each.keys() != found[0].keys() or found.count(each) > 1 for each in found):
        raise ArgValueError(
            "sizes", f"must have different sets, each with one size for the same dimensions. Received: sizes={sizes!r}."
        )
    return found


def export_signatures(
    export_one: Callable[[Path, Mapping[str, Sequence[int]]], Artifact],
    filepath: str | os.PathLike[str],
    sizes: Sequence[Mapping[str, tuple[int, ...]]],
) -> Artifact:
    """Exports a model once for each set of sizes, and publishes one file with all signatures.

    Each export compares its file with Keras. Every signature of the published file returned the same outputs as the
    file with its sizes alone.

    Args:
        export_one: Exports the model to a path with one set of sizes.
        filepath: The file to publish.
        sizes: The sets, each with one size for each dimension.

    Raises:
        ExportError: If an export fails, or a signature returns other outputs.
    """
    destination = check_destination(filepath, Format.LITERT)
    with tempfile.TemporaryDirectory() as folder, staged_artifact(destination) as staged:
        parts = [export_one(Path(folder) / f"{place}.tflite", each) for place, each in enumerate(sizes)]
        keys = dict(zip(_signature_keys(sizes), parts, strict=True))
        content = merge_files((key, part.path.read_bytes()) for key, part in keys.items())
        described = {SIGNATURE: _describe(keys, sizes), **keys}
        texts = {key: description_to_json(each) for key, each in described.items()}
        file = staged / destination.name
        file.write_bytes(add_descriptions(content, texts))
        with tensorflow_process() as process:
            _check(file, keys, process)
        publish_file(file, [], destination)
    return read_artifact(destination)


def _signature_keys(sizes: Sequence[Mapping[str, Sequence[int]]]) -> Iterator[str]:
    """Yields the name of each signature, made of the sizes that differ, such as "height_224_width_224"."""
    varying = [name for name in sizes[0] if len({each[name] for each in sizes}) > 1] or [*sizes[0]]
    for each in sizes:
        yield "_".join(f"{name}_{each[name][0]}" for name in varying)


def _describe(keys: Mapping[str, Artifact], sizes: Sequence[Mapping[str, Sequence[int]]]) -> Artifact:
    """Returns the description of the file: that of the first signature, with a note on all of them."""
    shown = (sizes_in_words({name: size for name, (size,) in each.items()}) for each in sizes)
    texts = [f"{key!r} ({words})" for key, words in zip(keys, shown, strict=True)]
    first = next(iter(keys.values()))
    notes = (*first.notes, f"The file has the signatures {', '.join(texts)}. {SIGNATURE!r} is the first of them.")
    return replace(first, notes=notes, metadata={**first.metadata, NOTES_KEY: json.dumps(list(notes))})


def _check(file: Path, parts: Mapping[str, Artifact], process: Worker) -> None:
    """Compares each signature of a file with the file of its sizes alone.

    Raises:
        InvalidArtifactError: If an output differs in any bit.
    """
    for key, part in parts.items():
        if not process.call(has_equal_outputs, str(file), key, str(part.path)):
            reason = f"signature {key!r} returns other outputs than the file with its sizes alone."
            raise InvalidArtifactError(Format.LITERT, part.metadata["keras_pe.model"], reason)


def has_equal_outputs(file: str, key: str, alone: str) -> bool:
    """Returns whether a signature of a file has the outputs of another file. A child process runs this function."""
    from ai_edge_litert.interpreter import Interpreter

    runners = [Interpreter(path).get_signature_runner(name) for path, name in ((file, key), (alone, SIGNATURE))]
    rng = np.random.default_rng(_SEED)
    inputs = {
        name: (rng.random(detail["shape"]) * 2).astype(detail["dtype"])  # 0 and 1 are indices of every table
        for name, detail in runners[0].get_input_details().items()
    }
    one, other = (runner(**inputs) for runner in runners)
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)
