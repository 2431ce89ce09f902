"""Does the artifact say what the model says? Runs both, compares, and names the cause where they differ."""

from keras_pe.export.parity.assertion import assert_parity as assert_parity
from keras_pe.export.parity.bundle.bundle import write_bundle as write_bundle
from keras_pe.export.parity.bundle.replay import replay_bundle as replay_bundle
from keras_pe.export.parity.check import check_parity as check_parity
from keras_pe.export.parity.reports import write_report as write_report
from keras_pe.export.parity.results import ParityReport as ParityReport
