"""The interface of a format to the stages of an export: a function that traces a model, and the steps of its file."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.rewrite import Rewrite
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.graph.graph_queries import GraphView
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.pipeline.smoke_test import Checked
from keras_pe.export.runtimes.worker import Worker

Write = Callable[[Path, Artifact], list[Path]]
"""Writes a file or folder with its description, and returns its companion files."""


@dataclass(frozen=True)
class Converted:
    """A model in the operators of a format.

    Attributes:
        write: Writes the file.
        notes: Sentences on the operators of the file.
        metadata: Further metadata of the artifact.
        rewrites: The operations that one operator replaces, or could not replace.
    """

    write: Write
    notes: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    rewrites: tuple[Rewrite, ...] = ()


@dataclass(frozen=True)
class Traced:
    """A traced model for one format, and the steps that make and check its file.

    Attributes:
        signature: The model's signature, with the sizes that the trace found.
        view: The traced graph.
        convert: Takes the path of the file, in an empty folder, and the process of the format. It raises an ExportError
            if the format cannot express the graph.
        check: Checks a written file and compares it with the model, see `check_artifact`.
        notes: Sentences on the differences between the file and the model.
    """

    signature: Signature
    view: GraphView
    convert: Callable[[Path, Worker], Converted]
    check: Callable[[Path, Worker, KerasReference], Checked]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetFormat:
    """A format with its options.

    Attributes:
        exporter: The name of the exporter, for errors.
        format: The format.
        extras: The extra that installs each package that the exporter needs, by the package's name.
        makers: The packages whose versions the artifact records.
        process: Returns a context manager with the process that converts the model and runs the file.
        trace: Takes the model followed by all of its layers, and the signature. It raises an ExportError if Keras
            cannot trace the model, or the format cannot express the model.
        precision: The dtype in which models of half precision are rebuilt; None if they keep their own dtype.
    """

    exporter: str
    format: Format
    extras: Mapping[str, str]
    makers: Sequence[str]
    process: Callable[[], AbstractContextManager[Worker]]
    trace: Callable[[Sequence[Any], Signature], Traced]
    precision: str | None = None
