"""Opens the workbench of an artifact: its layers for a quantizer, and its rows with the model's outputs."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.read_artifact import artifact_files
from keras_pe.export.comparison.references.interface import known_interface
from keras_pe.export.model.watch.layer_paths import layer_paths
from keras_pe.export.parity.data.shards import shards_of
from keras_pe.export.parity.data.source import DataError, DataSource
from keras_pe.export.parity.work.schedule import result_key
from keras_pe.export.parity.work.worker_input import Calibration, Job
from keras_pe.export.parity.work.worker_session import session_of
from keras_pe.export.progress import Tell
from keras_pe.export.quantization.file_measurement import FileMeasurer, class_outputs
from keras_pe.export.quantization.float_layers import least_rows
from keras_pe.export.quantization.keras_model import KerasModel
from keras_pe.export.quantization.layer_nodes import nodes_of_layers, nodes_of_operators, read_nodes
from keras_pe.export.quantization.quantization_records import Goal
from keras_pe.export.quantization.quantizers import QUANTIZERS, quantized_operators
from keras_pe.export.quantization.rows import store_rows
from keras_pe.export.quantization.workbench import Workbench
from keras_pe.export.runtimes.worker import Worker

_DAY = 86_400.0  # seconds that a quantizer may take


@contextmanager
def opened_workbench(
    job: Job,
    calibration: Calibration,
    source: DataSource,
    artifact: Artifact,
    method: str,
    keras_model: KerasModel | None,
    calibration_share: float,
    home: Path,
    checkpoint: Path | None,
    tell: Tell,
) -> Iterator[Workbench]:
    """Yields the workbench of an artifact, after the model has answered every row.

    Args:
        job: The model, the artifact and the data.
        calibration: The rules of the comparison.
        source: The data.
        artifact: The float file.
        method: The quantizer.
        keras_model: The model, for a quantizer that takes it; None for another.
        calibration_share: The share of the rows that calibrate.
        home: A temporary folder.
        checkpoint: A folder that keeps rows and ranges; None without one.
        tell: A function that reports progress.

    Raises:
        ValueError: If the artifact does not load; a `DataError` if the data does not fit the model.
    """
    (target,) = job.targets
    calibrated = calibration.targets[target.key]
    if calibrated.error:
        raise ArgValueError("artifact", f"must load and fit the model. Received: {artifact.path}: {calibrated.error}")
    file, *weights = artifact_files(artifact.path)
    folder = home / "files"  # a quantizer writes beside the file that it reads, also under longer names
    copy = folder / f"float{artifact.format.suffix}"
    copies = {file: copy} | {each: folder / each.relative_to(file.parent) for each in weights}
    for one, other in copies.items():
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(one.read_bytes())
    with session_of(job) as session, closing(Worker(target.spec, _DAY)) as worker:
        measurer = FileMeasurer(session, job, calibrated, session.targets[target.key].worker, source.name)
        measurer.load(target.path)
        model = session.reference.model
        nodes = read_nodes(artifact.path, artifact.format, [path for path, _ in layer_paths(model)] if model else [])
        quantizer = QUANTIZERS[artifact.format][method]
        if keras_model is None:
            operators = worker.call(quantized_operators, artifact.format, method)
            taken, left = nodes_of_operators(nodes, operators, quantizer.takes_bodies)
        else:
            taken, left = nodes_of_layers(nodes, keras_model.layers(quantizer.options))
        kept = home if checkpoint is None else checkpoint / _kept_name(job, calibration, calibration_share)
        rows = store_rows(session, job, calibration, shards_of(source), measurer.worker, kept, calibration_share, tell)
        record = known_interface(artifact.path, job.border, model).record
        _, outputs = next(rows.calibration.batches(1), (None, {}))
        measurer.indices = class_outputs(outputs, None if record is None else record.border)
        yield Workbench(
            format=artifact.format,
            method=method,
            source=copy,
            model=keras_model,
            kept=kept,
            float_bytes=artifact.nbytes,
            taken=taken,
            left=left,
            rows=rows,
            measurer=measurer,
            worker=worker,
        )


def _kept_name(job: Job, calibration: Calibration, share: float) -> str:
    """Returns the name of a folder that depends on all that the rows and their ranges depend on, beside the data."""
    (target,) = job.targets
    return result_key(
        reference=job.reference.key,
        version=calibration.version,
        target=target.key,
        batching=repr(calibration.feed),
        border=repr(job.border),
        share=share,
    )[:32]


def check_rows(goal: Goal, bench: Workbench, data: str) -> None:
    """Raises unless the rows and the outputs can show whether a goal is reached.

    Raises:
        DataError: If there are too few rows.
        ValueError: If no output decides.
    """
    if goal.kind == "decisions" and not bench.measurer.decides:
        raise ArgValueError(
            "decisions",
            "must be a goal of a model with an output that decides. Received: outputs that do not look like "
            "probabilities. State how an output decides with `acceptance`, or choose `error`.",
        )
    if goal.kind == "error" and not bench.measurer.has_errors:
        raise ArgValueError(
            "error",
            "must be a goal of a model with an output other than the number of a class. Received: "
            f"{', '.join(sorted(bench.measurer.indices))}. Choose `decisions`, or export the model without the "
            "step that decides.",
        )
    needed = least_rows(goal.value) if goal.kind == "decisions" else 1
    rows = bench.rows
    if rows.held_out.rows < needed or not rows.calibration.rows:
        total = rows.held_out.rows + rows.calibration.rows
        share = f" and prove {goal.kind}={goal.value:g}" if goal.kind == "decisions" else ""
        raise DataError(
            f"{data} must have rows to calibrate{share}: at least {needed:,} rows beside those for calibration. "
            f"Received: {total:,} rows, {rows.calibration.rows:,} of them for calibration."
        )
