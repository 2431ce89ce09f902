"""`keras-pe check`: compares an artifact with its model."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_pe.cli.check_data import check_data_usage, data_options, run_check_data
from keras_pe.cli.exit_codes import Command, CouldNotBeTriedError, describe, tried
from keras_pe.cli.options import (
    BORDER_FIELDS,
    InputPath,
    SavedPath,
    Verbosity,
    allowance_options,
    border_of,
    border_options,
    by_name,
    json_option,
    model_options,
    passed_options,
    sizes_option,
    verbosity_options,
)
from keras_pe.cli.reports import checked, reports_option, save_reports, show_report, timeout_option
from keras_pe.cli.start_keras import check_model_file, prepare_keras

if TYPE_CHECKING:
    from keras_pe.export.parity.dataset.data_report import DatasetReport
    from keras_pe.export.parity.parity_report import ParityReport
    from keras_pe.export.progress import Stopwatch

_EXISTING = InputPath()


def _check_ranges(
    context: click.Context, parameter: click.Parameter, ranges: tuple[tuple[str, float, float], ...]
) -> dict[str, tuple[float, float]]:
    for name, low, high in ranges:
        if not 0 < high - low < float("inf"):
            raise click.BadParameter(f"LOW must be below HIGH, by a finite number. Received: {name} {low:g} {high:g}.")
    return by_name(context, parameter, ((name, (low, high)) for name, low, high in ranges), of="input")


def _check_new_bundle(context: click.Context, parameter: click.Parameter, bundle: Path | None) -> Path | None:
    if bundle is not None:
        from keras_pe.export.parity.bundle import check_bundle_path

        with tried(what="--bundle"):
            check_bundle_path(bundle)
    return bundle


def _check_bundle(context: click.Context, parameter: click.Parameter, bundle: Path | None) -> Path | None:
    if bundle is not None and not bundle.exists():
        raise click.BadParameter(f"{bundle} is not there. A check that fails writes a bundle, one that passes none.")
    return bundle


@click.command(cls=Command)
@click.argument("model", type=SavedPath(), required=False)
@click.argument("artifacts", type=_EXISTING, nargs=-1)
@click.option(
    "--runtime",
    "runtimes",
    multiple=True,
    help="The name of a runtime, such as onnxruntime. Default: all default runtimes.",
)
@click.option(
    "--inputs", type=_EXISTING, multiple=True, help="An .npz file of inputs, instead of the drawn inputs (the sweep)."
)
@click.option(
    "--range",
    "ranges",
    type=(str, float, float),
    multiple=True,
    callback=_check_ranges,
    help="NAME LOW HIGH: the valid values of an input, from LOW to below HIGH.",
)
@sizes_option
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of the drawn inputs.")
@click.option(
    "--require-coverage", is_flag=True, help="Fail unless each artifact contains every weight of the model unchanged."
)
@click.option(
    "--least-compared",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Fail if a smaller share of the values of the cases was compared.",
)
@allowance_options
@border_options
@model_options
@data_options
@timeout_option
@click.option(
    "--diagnosis-seconds",
    default=60.0,
    show_default=True,
    help="The most seconds for the search for the cause of a failure.",
)
@reports_option
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    callback=_check_new_bundle,
    help="Write a bundle that replays the failures here, as .npz.",
)
@click.option(
    "--replay",
    type=InputPath(exists=False),
    callback=_check_bundle,
    help="Run the failures of a bundle again, without MODEL.",
)
@json_option("the report")
@verbosity_options(
    quiet="Print the verdict of the check and of each runtime that failed, one line each.",
    verbose="Print every output of every case as well.",
)
@click.option("--profile", is_flag=True, help="Print the seconds of each stage to the standard error.")
@click.pass_context
def check(
    context: click.Context,
    /,
    model: Path | None,
    artifacts: tuple[Path, ...],
    runtimes: tuple[str, ...],
    inputs: tuple[Path, ...],
    ranges: Mapping[str, tuple[float, float]],
    sizes: Mapping[str, tuple[int, ...]],
    seed: int,
    require_coverage: bool,
    least_compared: float,
    rtol: float,
    atol: float | Mapping[str, float],
    precision: str | None,
    allow_changed: float,
    modules: tuple[str, ...],
    unsafe: bool,
    timeout: float,
    diagnosis_seconds: float,
    reports: tuple[Path, ...],
    bundle: Path | None,
    replay: Path | None,
    as_json: bool,
    verbosity: Verbosity,
    profile: bool,
    **data_set: Any,
) -> int:
    """Run MODEL and its exported ARTIFACTS on the same inputs, and report the cause of each difference.

    MODEL is a .keras or .h5 file, another artifact (.onnx, .tflite, SavedModel folder), or an .npz file with arrays
    inputs/NAME and outputs/NAME. With --data the check runs every row of a data set. Exits with 0 if the outputs agree,
    1 if they differ, 2 if the check could not run.
    """
    _check_usage(context)
    border_fields = {name: data_set.pop(name) for name in BORDER_FIELDS}
    check_data_usage(context, data_set)
    from keras_pe.export.model.saved_file import KERAS_SUFFIXES, load_model
    from keras_pe.export.parity.check_parity import check_parity
    from keras_pe.export.parity.replay import replay_bundle
    from keras_pe.export.progress import Stopwatch

    watch = Stopwatch()
    shows_bar = not as_json and verbosity is not Verbosity.QUIET
    is_keras = model is not None and model.suffix in KERAS_SUFFIXES
    if model is not None and not is_keras and (modules or unsafe):
        option = "--import" if modules else "--unsafe"
        raise click.UsageError(f"{option} is about a MODEL that Keras saved. Received: {model}.")
    if model is not None and is_keras:
        check_model_file(model)
    with checked(model or replay):
        if is_keras:
            prepare_keras(modules, unsafe)
            watch.stage("import Keras")
        border = border_of(border_fields, load_model)
        report: ParityReport | DatasetReport
        accepted: dict[str, Any] = {
            "rtol": rtol,
            "atol": atol,
            "precision": precision,
            "allow_changed": allow_changed,
            "least_compared": least_compared,
        }
        limits: dict[str, Any] = {"timeout": timeout, "diagnosis_seconds": diagnosis_seconds}
        shared: dict[str, Any] = {"runtimes": runtimes or None, "border": border, **limits}
        if data_set["data"] is not None:
            assert model is not None  # or _check_usage has refused
            report = run_check_data(model, artifacts, data_set, accepted, not shows_bar, **shared)
        elif replay is not None:
            report = replay_bundle(replay, runtimes=runtimes, progress=shows_bar, **limits)
        else:
            assert model is not None  # or _check_usage has refused
            report = check_parity(
                model,
                artifacts,
                inputs=inputs or None,
                ranges=ranges,
                sizes=sizes,
                seed=seed,
                require_coverage=require_coverage,
                progress=shows_bar,
                **accepted,
                **shared,
            )
            if inputs and all(case.error for case in report.cases):
                raise CouldNotBeTriedError(
                    f"--inputs must have a case that {model} takes. Received: {', '.join(map(str, inputs))}, which it "
                    f"refuses ({report.cases[0].error})."
                )
    show_report(report, as_json, verbosity)
    if profile:
        _show_times(report, watch)
    _write(report, reports, bundle)
    return 0 if report.passed else 1


def _check_usage(context: click.Context) -> None:
    """Refuses a call without a model, and one whose options a replay would pass over in silence."""
    replays = context.params["replay"] is not None
    if not replays and context.params["model"] is None:
        raise click.UsageError("Missing argument 'MODEL'. Give a model, or a bundle with --replay.")
    for name, option in passed_options(context).items() if replays else ():
        if name not in ("replay", "runtimes", "timeout", "diagnosis_seconds", "reports", "as_json", "verbosity"):
            raise click.UsageError(f"--replay takes everything from the bundle. Received also: {option}.")


def _write(report: "ParityReport | DatasetReport", reports: tuple[Path, ...], bundle: Path | None) -> None:
    """Writes the reports, and the bundle if there is a failure to replay.

    Raises:
        CouldNotBeTriedError: If one of them cannot be written. The others are.
    """
    from keras_pe.export.parity.bundle import write_bundle
    from keras_pe.export.parity.parity_report import ParityReport
    from keras_pe.export.parity.replay import replay_command

    lost = save_reports(report, reports)
    replayable = report if isinstance(report, ParityReport) else report.diagnosis
    if bundle is not None and (replayable is None or replayable.passed):
        click.echo("No bundle was written: nothing failed.", err=True)
    elif bundle is not None and replayable is not None:
        try:
            write_bundle(replayable, bundle)
        except ValueError as error:  # the artifact is not at fault
            click.echo(f"No bundle was written: {error}", err=True)
        except OSError as error:
            lost.append(describe(error))
        else:
            click.echo(f"Replay the failure with: {replay_command(replayable, bundle)}", err=True)
    if lost:
        raise CouldNotBeTriedError(" ".join(lost))


def _show_times(report: "ParityReport | DatasetReport", watch: "Stopwatch") -> None:
    from keras_pe.export.parity.parity_report import ParityReport
    from keras_pe.export.parity.presentation.figures import times
    from keras_pe.export.parity.reports.text import render_table

    assert isinstance(report, ParityReport)  # or check_data_usage has refused
    click.echo(f"\n{render_table(times(report, watch.stages))}", err=True)
