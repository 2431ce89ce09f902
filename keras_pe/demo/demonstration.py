"""The steps of the demonstration: train, export, check, forecast with two runtimes, and write a report."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import onnxruntime as ort

from keras_pe.demo.file_faults import FAULTS
from keras_pe.demo.forecast_picture import draw_forecast
from keras_pe.demo.forecaster import build_forecaster, train
from keras_pe.demo.series import HORIZON, load_months, make_windows, select
from keras_pe.export import check_parity, export_onnx, export_saved_model
from keras_pe.export.publishing.staging import publish_file, staging
from keras_pe.export.records import Artifact, ParityReport

HELD_OUT = 120  # months at the end of the record that training never sees
SEED = 0

Tell = Callable[[str, int | None, int | None], None]


class Demonstration(NamedTuple):
    """Results of the run.

    Attributes:
        folder: Folder of all files.
        artifacts: The exports.
        parity: The check of the exports against Keras.
        rmse: Root mean square errors of the held-out forecasts in ppm, by runtime and of the baseline. The baseline
            repeats the same month of the year before.
        max_abs_diff: The largest difference between the forecasts of Keras and of ONNX Runtime, in ppm.
        broken: The check of the file that was broken, where one was.
        fault: How it was broken.
    """

    folder: Path
    artifacts: tuple[Artifact, ...]
    parity: ParityReport
    rmse: dict[str, float]
    max_abs_diff: float
    broken: ParityReport | None = None
    fault: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the runtimes agree, the forecast beats the baseline, and a fault is named by its cause."""
        if self.broken is not None and self.fault is not None:
            causes = {finding.cause for result in self.broken.results for finding in result.findings}
            if FAULTS[self.fault].cause not in causes:
                return False
        return self.parity.passed and max(self.rmse["keras"], self.rmse["onnxruntime"]) < self.rmse["baseline"]

    def to_dict(self) -> dict[str, Any]:
        """Returns the run as JSON's plain values."""
        baseline = self.rmse["baseline"]
        return {
            "passed": self.passed,
            "held_out_months": HELD_OUT,
            "months_ahead": HORIZON,
            "rmse_ppm": self.rmse,
            "rmse_below_baseline_percent": round(100 * (1 - self.rmse["keras"] / baseline), 1),
            "keras_to_onnxruntime_max_abs_diff_ppm": self.max_abs_diff,
            "artifacts": {artifact.format: artifact.path.name for artifact in self.artifacts},
            "parity": self.parity.to_dict(),
        }


def run_demo(folder: Path, tell: Tell, fault: str | None = None) -> Demonstration:
    """Runs the demonstration and writes the model, the exports, the reports and a picture to `folder`.

    Args:
        folder: Made if it is not there; files of an earlier run are replaced.
        tell: Told what is going on: a stage, and for stages with steps those done and their total.
        fault: One of `FAULTS`: a file that is broken in this way is written and checked as well.

    Returns:
        The results.

    Raises:
        OSError: If the folder cannot be written.
    """
    tell("read the record", None, None)
    months, values = load_months()
    windows = make_windows(values)
    is_known = windows.last + HORIZON < len(values) - HELD_OUT
    known, held_out = select(windows, is_known), select(windows, ~is_known)

    keras.utils.set_random_seed(SEED)
    model = build_forecaster()
    train(model, known, lambda done, total, loss: tell(f"train, loss {loss:.2f}", done, total))
    _write(folder / "forecaster.keras", model.save)

    tell("export to SavedModel", None, None)
    saved_model = export_saved_model(model, folder / "forecaster_saved_model")
    tell("export to ONNX", None, None)
    onnx = export_onnx(model, folder / "forecaster.onnx")
    parity = check_parity(
        model, [saved_model, onnx], progress=lambda done, total, what: tell(f"check {what}", done, total)
    )

    parity.save(folder / "parity.html")
    broken = None
    if fault is not None:
        tell(f"break the file: {fault}", None, None)
        FAULTS[fault].make(model, folder / "broken.onnx")
        runtimes = ["onnxruntime[disabled]", "onnxruntime[all]"]
        broken = check_parity(
            model,
            folder / "broken.onnx",
            runtimes=runtimes,
            progress=lambda done, total, what: tell(f"check {what}", done, total),
        )
        broken.save(folder / "broken.html")

    tell("forecast", None, None)
    growth = {
        "keras": np.asarray(model.predict(held_out.changes, verbose=0))[:, -1, 0],
        "onnxruntime": ort.InferenceSession(onnx.path).run(None, {"changes": held_out.changes})[0][:, -1, 0],
        "baseline": np.zeros(len(held_out.last), np.float32),
    }
    truth = held_out.growth[:, -1, 0]
    found = Demonstration(
        folder=folder,
        artifacts=(saved_model, onnx),
        parity=parity,
        rmse={name: float(np.sqrt(np.mean((each - truth) ** 2))) for name, each in growth.items()},
        max_abs_diff=float(np.abs(growth["keras"] - growth["onnxruntime"]).max()),
        broken=broken,
        fault=fault,
    )
    tell("write the report", None, None)
    text = json.dumps(found.to_dict(), indent=2) + "\n"
    _write(folder / "report.json", lambda path: path.write_text(text))
    forecasts = {name: values[held_out.last] + each for name, each in growth.items()}
    _write(
        folder / "forecast.png", lambda path: draw_forecast(path, months, values, held_out.last + HORIZON, forecasts)
    )
    return found


def timed_demo(folder: Path, tell: Tell, fault: str | None = None) -> tuple[Demonstration, float]:
    """Returns what `run_demo` returns, and the seconds it took."""
    start = time.perf_counter()
    return run_demo(folder, tell, fault), time.perf_counter() - start


def _write(destination: Path, write: Callable[[Path], Any]) -> None:
    with staging(destination) as folder:
        write(folder / destination.name)
        publish_file(folder / destination.name, (), destination)
