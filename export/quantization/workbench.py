"""Writes quantized files of one artifact, and measures them on stored rows."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.read_artifact import hash_files
from keras_pe.export.dependencies import installed_version
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.progress import Tell
from keras_pe.export.quantization.file_measurement import FileMeasurer
from keras_pe.export.quantization.keras_model import KerasModel
from keras_pe.export.quantization.layer_nodes import Node, QuantizableLayer, quantizable_layers
from keras_pe.export.quantization.plan import Plan
from keras_pe.export.quantization.quantization_records import LayerEffect, Score, Trial
from keras_pe.export.quantization.quantizer import Options, Quantizer
from keras_pe.export.quantization.quantizers import QUANTIZERS, calibrate, quantizer_options, write_quantized
from keras_pe.export.quantization.rows import SplitRows
from keras_pe.export.quantization.timing import ONE_THREAD, time_in_turns
from keras_pe.export.runtimes.worker import Worker

_RANKING_ROWS = 256
_FEEDS = 256  # batches that a quantizer reads at once, since it keeps something of each


@dataclass
class Workbench:
    """The files of one quantization, in a temporary folder.

    Attributes:
        format: The format of the files.
        method: The name of the quantizer.
        source: The float file, in the folder.
        model: The model, for a quantizer that takes it; None for another.
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
    model: KerasModel | None
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
        """The layers that the quantizer can leave in float."""
        return () if self.quantizer.leave_in_float is None else quantizable_layers(self.taken)

    @property
    def quantizer(self) -> Quantizer:
        """The quantizer."""
        return QUANTIZERS[self.format][self.method]

    @cached_property
    def common_options(self) -> Options:
        """The options of the file in which everything is quantized."""
        operators = sorted({node.operator for node in (*self.taken, *self.left)})
        found: Options = self.worker.call(quantizer_options, self.format, self.method, operators)
        return found

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

    def options(self, floats: Sequence[str]) -> Options:
        """Returns the options of the quantizer with some layers in float."""
        if self.quantizer.leave_in_float is None:
            return self.common_options
        names = [node.name for each in self.layers if each.path in floats for node in each.nodes]
        bodies = [] if self.quantizer.takes_bodies else [node.name for node in self.left if node.is_in_body]
        return self.quantizer.leave_in_float(self.common_options, [*names, *bodies])

    def write(self, floats: Sequence[str]) -> Path:
        """Writes the file with some layers in float, unless it is the last one. Another file is overwritten.

        Raises:
            ValueError: If the quantizer refuses the file.
        """
        target = self.source.with_name(f"quantized{self.format.suffix}")
        if self.written != tuple(floats):
            self.written = None
            target.unlink(missing_ok=True)
            options = self.options(floats)
            if self.model is None:
                self._call(write_quantized, str(self.source), str(target), options, str(self.cache))
            else:
                self.model.write(target, options)
            self.written = tuple(floats)
        return target

    def effects(self, tell: Tell) -> list[LayerEffect]:
        """Returns the effect of each layer, alone and with all others quantized; without layers that do not change."""
        if not self.layers:
            return []
        before = self._score(self.source)
        together = self._effect(self._score(self.write([]))) ** 2
        found = []
        for number, layer in enumerate(self.layers):
            tell(number, len(self.layers), f"quantizing {layer.path} alone")
            path = self.write([each.path for each in self.layers if each is not layer])
            score = self._score(path)
            saved = 1 - path.stat().st_size / self.float_bytes
            # The number of a class may stay the same although the values before it differ.
            is_changed = (score.error, score.strain) != (before.error, before.strain)
            if is_changed or (saved and not self.measurer.has_errors):
                left = self._effect(self._score(self.write([layer.path]))) ** 2
                joint = 1 - left / together if together else 0.0
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
