"""`keras-pe inspect`: the inputs, outputs and contents of an exported file, without running it."""

import json
from pathlib import Path

import click

from keras_pe.cli.artifact_tables import artifact_json, show_artifacts, show_metadata
from keras_pe.cli.exit_codes import Command, tried
from keras_pe.cli.options import InputPath, json_option


@click.command(cls=Command)
@click.argument("file", type=InputPath())
@json_option("the description")
def inspect(file: Path, as_json: bool) -> None:
    """Print the inputs, outputs and contents of FILE: an .onnx or .tflite file, or the folder of a SavedModel.

    The command reads FILE without running it. FILE may be from any exporter. For an ONNX file the command prints the
    operators of each layer. Exits with 0, or with 2 if FILE cannot be read.
    """
    from keras_pe.export.artifacts.read_artifact import read_artifact

    with tried():
        artifact = read_artifact(file)
        # The records and the contents are read when they are printed.
        if as_json:
            click.echo(json.dumps(artifact_json(artifact, explain=True), indent=2))
        else:
            show_artifacts([artifact], explain=True)
            show_metadata(artifact)
