"""Writes quantized files of one artifact, and measures them on stored rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.read_artifact import artifact_files, hash_files
from keras_pe.export.dependencies import installed_version
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.layer_paths import layer_paths
from keras_pe.export.parity.data.shards import shards_of
from keras_pe.export.parity.data.source import DataError, DataSource
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.parity.work.schedule import result_key
from keras_pe.export.parity.work.worker_input import Calibration, Job
from keras_pe.export.parity.work.worker_session import session_of
from keras_pe.export.progress import Tell
from keras_pe.export.quantization.file_measurement import FileMeasurer
from keras_pe.export.quantization.float_layers import least_rows
from keras_pe.export.quantization.layer_nodes import (
    Node,
    QuantizableLayer,
    quantizable_layers,
    read_nodes,
)
from keras_pe.export.quantization.plan import Plan
from keras_pe.export.quantization.quantization_records import Goal, LayerEffect, Score, Trial
from keras_pe.export.quantization.quantizer import Quantizer
from keras_pe.export.quantization.quantizers import QUANTIZERS, calibrate, quantized_operators, write_quantized
from keras_pe.export.quantization.rows import SplitRows, store_rows
from keras_pe.export.quantization.timing import ONE_THREAD, time_in_turns
from keras_pe.export.runtimes.worker import Worker

_DAY = 86_400.0  # seconds that a quantizer may take
_RANKING_ROWS = 256
_FEEDS = 256  # batches that a quantizer reads at once, since it keeps something of each


@dataclass
class Workbench:
    """The files of one quantization, in a temporary folder.

    Attributes:
        format: The format of the files.
        method: The name of the quantizer.
        source: The float file, in the folder.
        kept: The folder that keeps the ranges, also after a stop.
        float_bytes: The size of the float file with its weights.
        taken: The nodes that the quantizer takes.
        left: The nodes that it does not take.
        rows: The rows.
        measurer: Measures a file.
        worker: The process of the quantizer.
        statistics: The measurements on the held-out rows, by the layers in float.
        written: The layers in float of the file that was written last.
    """

    format: Format
    method: str
    source: Path
    kept: Path
    float_bytes: int
    taken: Sequence[Node]
    left: Sequence[Node]
    rows: SplitRows
    measurer: FileMeasurer
    worker: Worker
    statistics: dict[tuple[str, ...], RuntimeStatistics] = field(default_factory=dict)
    written: tuple[str, ...] | None = None

    @cached_property
    def layers(self) -> tuple[QuantizableLayer, ...]:
        """The layers that the quantizer takes."""
        return quantizable_layers(self.taken)

    @property
    def quantizer(self) -> Quantizer:
        """The quantizer."""
        return QUANTIZERS[self.format][self.method]

    @property
    def cache(self) -> Path:
        """The calibration cache."""
        return self.kept / "ranges.json"

    def calibrate(self, tell: Tell) -> None:
        """Writes the calibration cache, if the quantizer needs one. It goes on where an earlier call was stopped.

        Raises:
            ValueError: If the quantizer refuses the file.
        """
        if self.quantizer.calibrate is None:
            return
        feeds, count = [str(path) for path in self.rows.feeds], self.kept / "calibrated.txt"
        # A range stays the same if a batch counts twice, so the two files may be written one after the other.
        first = int(count.read_text()) if count.exists() and self.cache.exists() else 0
        for start in range(first, len(feeds), _FEEDS):
            tell(start, len(feeds), "calibrating")
            self._call(calibrate, str(self.source), str(self.cache), feeds[start : start + _FEEDS])
            count.write_text(str(min(start + _FEEDS, len(feeds))))

    def options(self, floats: Sequence[str]) -> Mapping[str, Any]:
        """Returns the options of the quantizer with some layers in float."""
        names = [node.name for each in self.layers if each.path in floats for node in each.nodes]
        bodies = [] if self.quantizer.takes_bodies else [node.name for node in self.left if node.is_in_body]
        return self.quantizer.leave_in_float(self.quantizer.options, [*names, *bodies])

    def write(self, floats: Sequence[str]) -> Path:
        """Writes the file with some layers in float, unless it is the last one. Another file is overwritten.

        Raises:
            ValueError: If the quantizer refuses the file.
        """
        target = self.source.with_name(f"quantized{self.format.suffix}")
        if self.written != tuple(floats):
            self.written = None
            target.unlink(missing_ok=True)
            self._call(write_quantized, str(self.source), str(target), self.options(floats), str(self.cache))
            self.written = tuple(floats)
        return target

    def effects(self, tell: Tell) -> list[LayerEffect]:
        """Returns the effect of each layer, alone and with all others quantized; without layers that do not change."""
        before = self._score(self.source)
        together = self._effect(self._score(self.write([]))) ** 2 or 1.0
        found = []
        for number, layer in enumerate(self.layers):
            tell(number, len(self.layers), f"quantizing {layer.path} alone")
            path = self.write([each.path for each in self.layers if each is not layer])
            score = self._score(path)
            if (score.error, score.strain) != (before.error, before.strain):
                saved = 1 - path.stat().st_size / self.float_bytes
                joint = 1 - self._effect(self._score(self.write([layer.path]))) ** 2 / together
                effect = self._effect(score)
                tensors = tuple(name for node in layer.nodes for name in node.results)
                found.append(LayerEffect(layer.path, layer.operators, saved, effect, max(joint, 0.0), tensors=tensors))
        return found

    def _score(self, path: Path) -> Score:
        return self.measurer.measure(path, self.rows.calibration, _RANKING_ROWS).score

    def _effect(self, score: Score) -> float:
        return score.strain if self.measurer.decides else min(score.error, 1e30)

    def trial(self, floats: tuple[str, ...]) -> Trial:
        """Returns the trial of a file with some layers in float, on the calibration rows."""
        path = self.write(floats)
        score = self.measurer.measure(path, self.rows.calibration).score
        return Trial(floats, path.stat().st_size, score)

    def prove(self, trial: Trial) -> Score:
        """Returns the score of the file of a trial on the held-out rows, and keeps its statistics."""
        measured = self.measurer.measure(self.write(trial.layers_in_float), self.rows.held_out)
        self.statistics[trial.layers_in_float] = measured.statistics
        return measured.score

    def seconds(self, file: Path) -> tuple[float, float]:
        """Returns the time of one batch in the float file and in another file, in turns."""
        spec = self.worker.spec
        options = {**spec.options, **ONE_THREAD[self.format]}
        files = str(self.source), str(file)
        first, second = self.worker.call(time_in_turns, spec.factory, options, files, str(self.rows.feeds[0]))
        return first, second

    def plan(self, floats: Sequence[str], file: Path) -> Plan:
        """Returns the plan of a file with some layers in float."""
        is_calibrated = self.quantizer.calibrate is not None
        cache = json.loads(self.cache.read_text()) if is_calibrated else None
        (source, *_), (result,) = hash_files(self.source).values(), hash_files(file).values()
        function = self.quantizer.function
        package = function.partition(".")[0].replace("_", "-")
        version = f"{package} {installed_version(package)}"
        return Plan(function, self.options(floats), version, source, result, cache)

    def _call(self, function: Any, *arguments: Any) -> None:
        try:
            self.worker.call(function, self.format, self.method, *arguments)
        except RuntimeFailedError as error:
            function_name = self.quantizer.function.rpartition(".")[2]
            raise ArgValueError(
                "artifact", f"must be a file that {function_name} takes. Received: a file that it refuses ({error})."
            ) from error


@contextmanager
def opened_workbench(
    job: Job,
    calibration: Calibration,
    source: DataSource,
    artifact: Artifact,
    method: str,
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
    folder = home / "files"
    folder.mkdir()
    for each in artifact_files(artifact.path):  # a quantizer writes beside the file that it reads
        (folder / each.name).write_bytes(each.read_bytes())
    with session_of(job) as session, closing(Worker(target.spec, _DAY)) as worker:
        measurer = FileMeasurer(session, job, calibrated, session.targets[target.key].worker, source.name)
        measurer.load(target.path)
        operators = worker.call(quantized_operators, artifact.format, method)
        model = session.reference.model
        nodes = read_nodes(artifact.path, artifact.format, [path for path, _ in layer_paths(model)] if model else [])
        takes_bodies = QUANTIZERS[artifact.format][method].takes_bodies
        kept = home if checkpoint is None else checkpoint / _kept_name(job, calibration, calibration_share)
        taken, left = list[Node](), list[Node]()
        for node in nodes:
            is_taken = node.operator in operators and (takes_bodies or not node.is_in_body)
            (taken if is_taken else left).append(node)
        yield Workbench(
            format=artifact.format,
            method=method,
            source=folder / artifact.path.name,
            kept=kept,
            float_bytes=artifact.nbytes,
            taken=taken,
            left=left,
            rows=store_rows(
                session, job, calibration, shards_of(source), measurer.worker, kept, calibration_share, tell
            ),
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
        border=None if job.border is None else repr(job.border),
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
    needed = least_rows(goal.value) if goal.kind == "decisions" else 1
    rows = bench.rows
    if rows.held_out.rows < needed or not rows.calibration.rows:
        total = rows.held_out.rows + rows.calibration.rows
        share = f" and prove {goal.kind}={goal.value:g}" if goal.kind == "decisions" else ""
        raise DataError(
            f"{data} must have rows to calibrate{share}: at least {needed:,} rows beside those for calibration. "
            f"Received: {total:,} rows, {rows.calibration.rows:,} of them for calibration."
        )
