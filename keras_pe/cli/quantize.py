"""`keras-pe quantize`: writes a smaller file, checked on rows outside the calibration."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from keras_pe.cli.batching_options import batch_options, column_option
from keras_pe.cli.exit_codes import Command, CouldNotBeTriedError, tried
from keras_pe.cli.options import (
    BORDER_FIELDS,
    InputPath,
    SavedPath,
    Verbosity,
    border_of,
    border_options,
    by_name,
    json_option,
    model_options,
    verbosity_options,
)
from keras_pe.cli.reports import checked, reports_option, save_reports, show_report, timeout_option
from keras_pe.cli.start_keras import check_model_file, prepare_keras

_METHODS = ("static", "dynamic", "int8-weights", "int4-weights", "float16", "keras-int8", "keras-int4")


def _check_node_data(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    if path is not None:
        from keras_pe.export.publishing.destination import check_file_path

        with tried():
            check_file_path(path, parameter.opts[0])
    return path


@click.command(cls=Command)
@click.argument("model", type=SavedPath())
@click.argument("artifact", type=InputPath())
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--data",
    type=InputPath(exists=False),
    required=True,
    help="Rows that calibrate the file and that check it: a .csv, .npz, .npy, .parquet, .arrow or .tfrecord file, or "
    "a folder.",
)
@click.option(
    "--decisions", type=float, help="Goal: the least share of rows with an unchanged decision, such as 0.999."
)
@click.option("--error", type=float, help="Goal: the largest error of an output, as a share of its deviation.")
@click.option("--size", type=float, help="Goal: the largest share of the bytes of ARTIFACT.")
@click.option("--method", type=click.Choice(_METHODS), default="static", show_default=True, help="The quantizer.")
@click.option("--calibration-share", default=0.2, show_default=True, help="Share of the rows for the calibration.")
@click.option("--trials", default=15, show_default=True, help="The largest number of trial files.")
@click.option("--write-nearest", is_flag=True, help="Write the nearest file if no file reaches the goal.")
@click.option(
    "--checkpoint-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the rows and the calibration here, so that a repeated call continues after a stop.",
)
@click.option(
    "--node-data",
    type=click.Path(path_type=Path),
    callback=_check_node_data,
    help="Write each layer's share of the error to a JSON file, which Model Explorer shows on ARTIFACT.",
)
@column_option
@click.option(
    "--decision",
    "rules",
    type=(str, str),
    multiple=True,
    callback=by_name,
    help="OUTPUT RULE: the decision rule of an output: argmax, top5, a threshold, or none.",
)
@batch_options
@border_options
@model_options
@timeout_option
@reports_option
@json_option("the report")
@verbosity_options(
    quiet="Print the verdict alone.",
    verbose="Print every layer as well.",
)
def quantize(
    model: Path,
    artifact: Path,
    out: Path,
    rules: Mapping[str, str],
    modules: tuple[str, ...],
    unsafe: bool,
    reports: tuple[Path, ...],
    node_data: Path | None,
    as_json: bool,
    verbosity: Verbosity,
    **given: Any,
) -> int:
    """Quantize ARTIFACT, an ONNX or LiteRT file that was exported from MODEL, to OUT.

    MODEL is a .keras or .h5 file, or another artifact. The command returns the layers that harm the goal most to float,
    until the goal holds on rows outside the calibration. OUT.plan.json has the options of the quantizer. Exits with 0
    if the goal is reached, 1 if not, 2 if the command could not run.
    """
    from keras_pe.export.model.saved_file import KERAS_SUFFIXES, load_model
    from keras_pe.export.parity.data.batching import Batching
    from keras_pe.export.parity.work.worker_input import Acceptance
    from keras_pe.export.publishing.staging import staged_file
    from keras_pe.export.quantization.quantize import quantize

    if is_keras := model.suffix in KERAS_SUFFIXES:
        check_model_file(model)
    with checked(model):
        if is_keras:
            prepare_keras(modules, unsafe)
        border = border_of({name: given.pop(name) for name in BORDER_FIELDS}, load_model)
        batching = Batching(**{each.name: given.pop(each.name) for each in fields(Batching)})
        shows_bar = not as_json and verbosity is not Verbosity.QUIET
        report = quantize(
            model,
            artifact,
            out,
            batching=batching,
            acceptance=Acceptance(decisions=rules),
            border=border,
            progress=shows_bar,
            **given,
        )
    show_report(report, as_json, verbosity)
    lost = save_reports(report, reports)
    if node_data is not None:
        try:
            with staged_file(node_data, "The data of --node-data") as part:
                part.write_text(json.dumps(report.node_data(), indent=1) + "\n")
        except OSError as error:
            lost.append(str(error))
    if lost:
        raise CouldNotBeTriedError(" ".join(lost))
    return 0 if report.passed else 1
