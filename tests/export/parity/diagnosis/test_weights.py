"""The artifact's weights beside the model's."""

import tracemalloc

import keras

from keras_pe.export.parity.diagnosis.weights import compare_weights


def test_what_may_have_become_of_a_weight_is_tried_for_one_weight_at_a_time():
    inputs = keras.Input((256,))
    model = keras.Sequential([inputs, *(keras.layers.Dense(256, name=f"dense_{i}") for i in range(16))])
    nbytes = sum(v.numpy().nbytes for v in model.variables)
    constants = {v.path: -v.numpy() if v.path.endswith("kernel") else v.numpy() for v in model.variables}
    tracemalloc.start()
    try:
        faults = compare_weights(model, constants)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {fault.cause for fault in faults} == {"flipped sign"}
    assert len(faults) == 16
    assert peak < 2 * nbytes  # each weight once, and a dozen float32 copies of one of the sixteen kernels
