"""Names of an artifact: translated on the way in and out, and put in the order in which they are counted."""

import numpy as np

from keras_pe.export.runtimes.runner import Names, in_order


def test_names_are_put_in_the_order_in_which_they_are_counted():
    assert in_order(["output_10", "output_2", "output_1", "a", "2"]) == ["2", "a", "output_1", "output_2", "output_10"]


def test_inputs_and_outputs_of_an_artifact_have_the_models_names():
    names = Names({"x": "args_0"}, {"y": "output_0"})
    arrays = {name: np.zeros(size) for size, name in enumerate(("x", "other"))}
    assert {name: array.size for name, array in names.to_artifact(arrays).items()} == {"args_0": 0, "other": 1}
    inner = {"y": np.zeros(1), "output_0": np.zeros(2), "more": np.zeros(3)}
    returned = names.to_model(inner)
    assert {name: array.size for name, array in returned.items()} == {"y": 2, "more": 3}, "the output, not its namesake"
    assert {name: array.size for name, array in names.inner_to_artifact(returned).items()} == {
        "output_0": 2,
        "more": 3,
    }
