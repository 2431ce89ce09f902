"""What one artifact in one runtime has come to, once its shards are merged."""

from keras_pe.export.parity.dataset.results import DatasetResult, OutputSummary
from keras_pe.export.parity.statistics.output import OutputStatistics
from keras_pe.export.parity.statistics.runtime_statistics import RuntimeStatistics
from keras_pe.export.parity.work.job import Calibration, Target
from keras_pe.export.parity.work.schedule import Tally


def summarize(calibration: Calibration, target: Target, tally: Tally | None, allow_changed: float) -> DatasetResult:
    """Returns what one artifact in one runtime has come to."""
    found = tally or Tally(RuntimeStatistics())
    measured, none = found.statistics.outputs, OutputStatistics()
    outputs = tuple(
        OutputSummary(
            output=name,
            decision=None if rule.decision is None else str(rule.decision),
            noise_floor=rule.unit or None,
            allowed=rule.allowed,
            statistics=measured.get(name, none),
        )
        for name, rule in calibration.rules.items()
    )
    return DatasetResult(
        artifact=str(target.path),
        format=target.spec.format,
        runtime=target.spec.name,
        version=calibration.versions.get(target.key, ""),
        allow_changed=allow_changed,
        statistics=found.statistics,
        outputs=outputs if tally else (),
        error=calibration.unloaded.get(target.key, ""),
        rows_per_second=found.rows / found.seconds if found.seconds else None,
        names=calibration.names.get(target.key, ()),
    )
