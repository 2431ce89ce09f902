"""The options of `keras-pe check` for a data set."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keras_pe.cli.batching_options import batch_options, column_option
from keras_pe.cli.exit_codes import CouldNotBeTriedError
from keras_pe.cli.options import InputPath, by_name, passed_options, with_options

if TYPE_CHECKING:
    from keras_pe.export.parity.dataset.data_report import DatasetReport


def _labels(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> str | dict[str, str]:
    """Returns the column of the labels of each output, or the one column of the output that decides."""
    if len(texts) == 1 and "=" not in texts[0]:
        return texts[0]
    pairs = [text.partition("=") for text in texts]
    if not all(output and column for output, _, column in pairs):
        raise click.BadParameter(f"It must be one COLUMN, or OUTPUT=COLUMN for each. Received: {' '.join(texts)}.")
    return by_name(context, parameter, [(output, column) for output, _, column in pairs], of="output")


data_options = with_options(
    click.option(
        "--data",
        type=InputPath(exists=False),
        help="Run every row of this data set instead of the sweep: a .csv, .npz, .npy, .parquet, .arrow or "
        ".tfrecord file, or a folder.",
    ),
    column_option,
    click.option(
        "--decision",
        "decisions",
        type=(str, str),
        multiple=True,
        callback=by_name,
        help="OUTPUT RULE: the decision rule of an output: argmax, top5, a threshold, or none.",
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        callback=_labels,
        metavar="[OUTPUT=]COLUMN",
        help="The column of the right classes. The report states the accuracy of the model and of each artifact.",
    ),
    click.option("--stop-after", type=int, help="Stop after this number of failed rows."),
    batch_options,
    click.option("--workers", type=int, help="Number of processes on this machine. Default: one for each processor."),
    click.option(
        "--cluster", help="Run on this cluster: dask://HOST:PORT, ray://HOST:PORT, or an address that a plug-in opens."
    ),
    click.option(
        "--checkpoint-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Store results here, so that a repeated call continues after a stop.",
    ),
)
_OF_THE_SWEEP = ("inputs", "ranges", "sizes", "seed", "require_coverage", "profile")


def check_data_usage(context: click.Context, names: Iterable[str]) -> None:
    """Refuses options that would be passed over in silence: the sweep's with data, and the data's without.

    Args:
        context: Context of the command.
        names: Options of `data_options`.
    """
    has_data = context.params["data"] is not None
    for name, option in passed_options(context).items():
        if has_data and name in _OF_THE_SWEEP:
            raise click.UsageError(f"--data takes the place of the sweep. Received also: {option}.")
        if not has_data and name in names:
            raise click.UsageError(f"{option} is about --data, which is missing.")
    if has_data and not context.params["artifacts"]:
        raise click.UsageError("Missing argument 'ARTIFACTS'. Give what was made from the model.")


def run_check_data(
    model: Path,
    artifacts: tuple[Path, ...],
    options: Mapping[str, Any],
    accepted: Mapping[str, Any],
    quiet: bool,
    **others: Any,
) -> "DatasetReport":
    """Returns the report of `check_dataset`, whose progress is shown on the standard error.

    Args:
        model: The reference.
        artifacts: Files to check.
        options: Options of `data_options`.
        accepted: Options of `allowance_options`, and the least share of values that must be compared.
        quiet: Whether nothing is shown.
        **others: The options that a sweep has as well.
    """
    from keras_pe.export.parity.data.batching import Batching
    from keras_pe.export.parity.dataset.check_dataset import check_dataset
    from keras_pe.export.parity.work.executors import cluster_executor
    from keras_pe.export.parity.work.schedule import WorkersDiedError
    from keras_pe.export.parity.work.worker_input import Acceptance

    given: dict[str, Any] = {**options, **accepted}
    for argument, group in (("batching", Batching), ("acceptance", Acceptance)):
        given[argument] = group(**{each.name: given.pop(each.name) for each in fields(group)})
    cluster, count = given.pop("cluster"), given.pop("workers")
    if cluster is not None and count is not None:
        raise ValueError("--workers must be left out with --cluster, which has its own workers.")
    with nullcontext(count) if cluster is None else cluster_executor(cluster) as workers:
        try:
            return check_dataset(model, artifacts, workers=workers, progress=not quiet, **given, **others)
        except WorkersDiedError as error:
            raise CouldNotBeTriedError(str(error)) from error
