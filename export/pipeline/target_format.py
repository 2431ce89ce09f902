"""A format as the stages of an export see it: a function that traces a model, and the steps that make its file."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.graph.view import GraphView
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.pipeline.smoke_test import Checked
from keras_pe.export.runtimes.runner import Worker

Write = Callable[[Path, Artifact], list[Path]]
"""Writes a file, or folder, with its description, and returns the files beside it that belong to it."""


@dataclass(frozen=True)
class Traced:
    """A model that was traced for a format, and the steps that make its file.

    Attributes:
        signature: The model's signature, with the sizes that the trace found.
        view: The traced graph.
        convert: Takes the path of the file, in an empty folder, and the process of the format; returns what writes the
            file. It raises an ExportError if the graph has no form in the format.
        check: Checks a written file and runs it beside the model, see `check_artifact`.
        notes: Sentences on how the file differs from the model.
    """

    signature: Signature
    view: GraphView
    convert: Callable[[Path, Worker], Write]
    check: Callable[[Path, Worker, KerasReference], Checked]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetFormat:
    """A format with its options.

    Attributes:
        exporter: The exporter's name, for errors.
        format: The format.
        extras: The extra that installs each package that the exporter needs, by the package's name.
        makers: The packages whose versions an artifact names.
        process: Lends the process that converts and runs.
        trace: Takes the model with every layer in it after it, and the model's signature. It raises an ExportError if
            Keras cannot trace the model, or the format cannot hold it.
        precision: The type in which models of half precision are rebuilt; None if they keep their own.
    """

    exporter: str
    format: Format
    extras: Mapping[str, str]
    makers: Sequence[str]
    process: Callable[[], AbstractContextManager[Worker]]
    trace: Callable[[Sequence[Any], Signature], Traced]
    precision: str | None = None
