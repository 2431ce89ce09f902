"""Quantizes an exported file until a goal holds on rows outside the calibration, and writes it with its plan."""

import math
import os
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.comparison.references.opening import Source
from keras_pe.export.dependencies import require
from keras_pe.export.model.border import Border
from keras_pe.export.parity.data.batching import Batching
from keras_pe.export.parity.data.open_data import open_source
from keras_pe.export.parity.data.sequences import join_sequences
from keras_pe.export.parity.data.shards import without_parts
from keras_pe.export.parity.parity_report import versions_of
from keras_pe.export.parity.work.executors import Here
from keras_pe.export.parity.work.open_models import open_artifacts, opened_model
from keras_pe.export.parity.work.schedule import Checkpoint, Schedule
from keras_pe.export.parity.work.worker_input import Acceptance, Job, refuse_fields
from keras_pe.export.processes.foreign_code import foreign_code
from keras_pe.export.processes.temporary_folder import TemporaryFolder
from keras_pe.export.progress import TIMEOUT, Stopwatch, Tell, check_seconds, date, telling
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.staging import publish_file, staged_artifact
from keras_pe.export.quantization.float_layers import Search, rank
from keras_pe.export.quantization.keras_model import KerasModel
from keras_pe.export.quantization.layer_nodes import describe_left
from keras_pe.export.quantization.plan import plan_path
from keras_pe.export.quantization.quantization_records import Goal, Trial
from keras_pe.export.quantization.quantization_report import QuantizationReport
from keras_pe.export.quantization.quantize_arguments import (
    check_float_file,
    check_method,
    check_numbers,
    only_goal,
    open_keras_model,
    read_float_file,
)
from keras_pe.export.quantization.quantizers import QUANTIZERS
from keras_pe.export.quantization.workbench import Workbench
from keras_pe.export.quantization.workbench_opening import check_rows, opened_workbench
from keras_pe.protocols import Model

_RUNTIMES = {Format.ONNX: "onnxruntime[all]", Format.LITERT: "litert"}
_PACKAGES = {Format.ONNX: ("onnx", "onnxruntime"), Format.LITERT: ("ai_edge_litert", "ai_edge_quantizer")}
_EXTRAS = {Format.ONNX: "export", Format.LITERT: "quantize"}


@foreign_code()
def quantize(
    model: Model | Source,
    artifact: Source,
    filepath: str | os.PathLike[str],
    data: Any,
    *,
    decisions: float | None = None,
    error: float | None = None,
    size: float | None = None,
    method: str = "static",
    batching: Batching | None = None,
    acceptance: Acceptance | None = None,
    calibration_share: float = 0.2,
    trials: int = 15,
    write_nearest: bool = False,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    input_signature: Any = None,
    border: Border | None = None,
    timeout: float = TIMEOUT,
    progress: Tell | bool | None = None,
) -> QuantizationReport:
    """Quantizes an ONNX or LiteRT file until one goal holds, and writes the file with its plan.

    ONNX Runtime's quantizers write ONNX files. The package `ai-edge-quantizer` writes LiteRT files. Keras' own
    quantizers change the model before its export to either format.

    A hash of the row numbers divides the rows of the data into two parts. One part calibrates the quantizer, and the
    other part proves the goal. In the first file every layer is quantized. Then layers return to float, in the order of
    their own effect on the outputs for each byte that they save.

    Args:
        model: The reference: a built `keras.Model`, the path of a `.keras` or `.h5` file, or an artifact.
        artifact: The ONNX or LiteRT file in float32 that was exported from the model.
        filepath: The path of the quantized file. Its plan is written to `<filepath>.plan.json`. A previous file stays
            until the new file is whole.
        data: As in `check_dataset`.
        decisions: The goal: the least share of all rows whose decisions stay, such as 0.999, with 95 % confidence. The
            bound is Clopper and Pearson's. The first file on the held-out rows has 96 %, later files have more, so
            that all bounds hold together with 95 %.
        error: The goal: the largest root mean square error of an output, as a share of the output's standard deviation.
        size: The goal: the largest share of the bytes of `artifact`. The layers that matter most stay in float.
        method: The quantizer. "static" writes int8 weights and values, with scales from the calibration rows. In ONNX,
            weights have 7 bits if this processor's sums of two int8 products saturate, as on x86 without VNNI.
            "dynamic" writes int8 weights and values, with scales from each call. "int8-weights" and "int4-weights"
            round weights alone: in ONNX with a scale for each block of 32, in LiteRT with a scale for each channel.
            "float16" stores weights in 16 bits and computes in float32. In ONNX, it takes all layers or none, rounds
            inputs and outputs to 16 bits, and computes files with loops or branches in 16 bits. "keras-int8" and
            "keras-int4" quantize a copy of the model with `keras.Model.quantize`, also embeddings, and export the copy.
            LiteRT has no "keras-int4".
        batching: As in `check_dataset`.
        acceptance: The outputs that decide. The goal takes the place of its other fields, which must be left out.
        calibration_share: The share of the rows that calibrate, between 0 and 1.
        trials: The most files that are tried, from 1 to 15.
        write_nearest: Whether the nearest file is written if no file reaches the goal.
        checkpoint_dir: A folder that keeps the rows with the model's outputs, and the ranges of the calibration. An
            equal call continues where an earlier call stopped.
        input_signature: As in `check_dataset`.
        border: As in `check_dataset`.
        timeout: Seconds that a file may take to load, or to answer one batch.
        progress: As in `check_dataset`.

    Returns:
        The report. It has not passed if no file reaches the goal.

    Raises:
        ValueError: If an argument is not valid, or the quantizer refuses the file.
        DataError: If the data cannot be read, does not fit the model, or has too few rows to prove the goal.
        TypeError: If the type of `data` is not supported.
        ImportError: If the quantizer, or a package that reads the data, is not installed.
        FileNotFoundError: If a file is missing.
        FileExistsError, NotADirectoryError: If `filepath` is taken, or not in a folder.
        OSError: If a file cannot be written.
        RuntimeError: If code of the model or the data raises SystemExit.
    """
    watch = Stopwatch()
    goal = only_goal(decisions, error, size)
    check_method(method)
    check_numbers(calibration_share, trials)
    check_seconds(timeout, timeout)
    described = read_float_file(artifact)
    known = QUANTIZERS[described.format]
    check_method(method, known, f", for {described.format.label} files")
    takes_model = known[method].write is None
    require("quantize", *_PACKAGES[described.format], extra=_EXTRAS[described.format])
    check_float_file(described)
    destination = check_destination(filepath, described.format)
    if destination == described.path.absolute():
        raise ArgValueError("filepath", f"must be another file than `artifact`, which stays. Received: {filepath}.")
    others = (each.name for each in fields(Acceptance) if each.name != "decisions")
    refuse_fields(acceptance, others, "The goal says what is accepted.")
    source = open_source(data)
    if isinstance(batching, Batching) and batching.sequence is not None:
        source = join_sequences(source, batching.sequence)
    checkpoint = None if checkpoint_dir is None else Path(checkpoint_dir).absolute()
    with ExitStack() as stack:
        tell = stack.enter_context(telling(progress))
        tell(0, None, "loading the model")
        model = open_keras_model(model, method) if takes_model else model
        home = stack.enter_context(TemporaryFolder()).path.absolute()
        job = Job(
            reference=stack.enter_context(opened_model(model, home, in_process=True)),
            targets=open_artifacts(described, _RUNTIMES[described.format]).targets,
            source=without_parts(source),
            batching=batching or Batching(),
            acceptance=acceptance or Acceptance(),
            input_signature=input_signature,
            timeout=timeout,
            border=border,
            one_thread=False,
        )
        calibration = Schedule(Here(), job, source, Checkpoint(home), 1, tell).calibrate()
        if calibration.calls is not None:
            raise ArgValueError(
                "artifact",
                f"must have no state, since each row is run alone. Received: {described.path}, a file with a state. "
                "Export the model without its cache or state, or call the quantizer itself and check its file.",
            )
        (target,) = calibration.targets.values()
        copied = None
        if takes_model:
            copied = KerasModel.prepare(model, described, input_signature, border, target.names)
        given = (described, method, copied, calibration_share)
        bench = stack.enter_context(opened_workbench(job, calibration, source, *given, home, checkpoint, tell))
        check_rows(goal, bench, source.name)
        search, found = _search(goal, bench, described.path, trials, tell)
        best = bench.write(found.layers_in_float)
        assert found.held_out is not None
        seconds = (math.nan, math.nan) if found.held_out.failure else bench.seconds(best)
        is_written = found.holds or write_nearest
        if is_written:
            _publish(bench, best, found, destination)
        float_score = bench.measurer.measure(bench.source, bench.rows.held_out).score
    watch.stage("quantization")
    return QuantizationReport(
        model=calibration.model,
        artifact=str(described.path),
        filepath=str(destination) if is_written else None,
        plan=str(plan_path(destination)) if is_written else None,
        method=method,
        goal=goal,
        passed=found.holds,
        chosen=found,
        trials=search.trials,
        layers=tuple(replace(each, in_float=each.layer in found.layers_in_float) for each in search.order),
        float_bytes=described.nbytes,
        decides=bench.measurer.decides,
        float_score=float_score,
        statistics=bench.statistics[found.layers_in_float],
        float_seconds=seconds[0],
        quantized_seconds=seconds[1],
        left=describe_left(bench.left),
        options=bench.options(found.layers_in_float),
        data=source.name,
        versions=versions_of([calibration.version, *(each.version for each in calibration.targets.values())]),
        seconds=watch.stages[-1].seconds,
        date=date(),
    )


def _search(goal: Goal, bench: Workbench, artifact: Path, trials: int, tell: Tell) -> tuple[Search, Trial]:
    """Returns the search, and its best trial."""
    bench.calibrate(tell)
    order = rank(bench.effects(tell))
    if not order and bench.quantizer.leave_in_float is not None:
        raise ArgValueError(
            "artifact",
            f"must have a layer that the method {bench.method!r} quantizes. Received: {artifact}, which has "
            "none. Choose another `method`.",
        )

    def write(floats: tuple[str, ...]) -> Trial:
        tell(len(search.trials), trials, f"trying {len(floats)} of {len(order)} layers in float")
        return bench.trial(floats)

    search = Search(order, goal, bench.float_bytes, trials, bench.rows.held_out.rows, write, bench.prove)
    return search, search.run()


def _publish(bench: Workbench, file: Path, trial: Trial, destination: Path) -> None:
    """Writes the quantized file and its plan, or leaves the previous files."""
    with staged_artifact(destination) as folder:
        part, plan = folder / destination.name, plan_path(folder / destination.name)
        part.write_bytes(file.read_bytes())
        plan.write_text(bench.plan(trial.layers_in_float, part).to_json())
        publish_file(part, [plan], destination)
