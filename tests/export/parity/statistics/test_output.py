"""The statistics of one output: what parts of the rows have come to is what all rows come to."""

import numpy as np

from keras_pe.export.parity.statistics.decisions import Decision
from keras_pe.export.parity.statistics.measure import measure_output
from keras_pe.export.parity.statistics.output import OutputStatistics


def test_parts_merge_into_the_whole_and_survive_json() -> None:
    rng = np.random.default_rng(0)
    expected = rng.standard_normal((300, 4))
    actual = expected + rng.standard_normal((300, 4)) * 0.3
    options = {"decision": Decision("argmax"), "noise": 0.1, "allowed": 0.5}
    whole, _ = measure_output(expected, actual, **options)
    merged = OutputStatistics()
    for part in (slice(200, 300), slice(0, 50), slice(50, 200)):
        merged = merged.merge(measure_output(expected[part], actual[part], **options)[0])
    assert merged == whole
    assert OutputStatistics.from_dict(whole.to_dict()) == whole
    assert min(whole.changed, whole.ties, whole.out_of_tolerance) > 0
