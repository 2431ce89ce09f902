"""Does the artifact say what the model says? Runs both, compares, and names the layer and the cause where they differ.

A check goes through the folders from left to right: inputs, references, verdict, diagnosis, reports.
"""

from typing import TYPE_CHECKING

from keras_pe.lazy import lazy_names

if TYPE_CHECKING:
    from keras_pe.export.parity.bundle import write_bundle as write_bundle
    from keras_pe.export.parity.check import check_parity as check_parity
    from keras_pe.export.parity.parity_report import ParityReport as ParityReport
    from keras_pe.export.parity.pytest_plugin import assert_parity as assert_parity
    from keras_pe.export.parity.replay import replay_bundle as replay_bundle
    from keras_pe.export.parity.reports.report import write_report as write_report

_LAZY = {
    "ParityReport": "keras_pe.export.parity.parity_report",
    "assert_parity": "keras_pe.export.parity.pytest_plugin",
    "check_parity": "keras_pe.export.parity.check",
    "replay_bundle": "keras_pe.export.parity.replay",
    "write_bundle": "keras_pe.export.parity.bundle",
    "write_report": "keras_pe.export.parity.reports.report",
}

__getattr__, __dir__ = lazy_names(__name__, tuple(_LAZY), _LAZY)
