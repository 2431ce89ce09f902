"""A LiteRT file for a target has a signature for each set of sizes, and stores the weights once."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from keras_pe.export import check_parity, export_litert
from tests.raised import about


def _model() -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 32), name="x")
    y = layers.MultiHeadAttention(2, 16)(x, layers.Dense(256, "gelu")(x))
    return keras.Model(x, {"tags": layers.Dense(5)(y), "all": layers.GlobalAveragePooling1D()(y)}, name="tagger")


@pytest.mark.slow
def test_each_signature_returns_keras_outputs_and_the_weights_are_stored_once(tmp_path: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter

    model = _model()
    sizes: Any = [{"length": 8}, {"length": 16}, {"length": 5}]
    artifact = export_litert(model, tmp_path / "model.tflite", target="gpu", sizes=sizes)
    alone = export_litert(model, tmp_path / "alone.tflite", target="gpu", sizes={"length": [16]})
    signatures = Interpreter(str(artifact.path)).get_signature_list()
    assert set(signatures) == {"serving_default", "length_8", "length_16", "length_5"}
    for key, length in (("serving_default", 8), ("length_8", 8), ("length_16", 16), ("length_5", 5)):
        x = np.random.default_rng(length).standard_normal((1, length, 32)).astype("float32")
        found = Interpreter(str(artifact.path)).get_signature_runner(key)(x=x)
        for name, expected in model(x).items():
            np.testing.assert_allclose(found[name], expected, atol=1e-5)
    weights = sum(weight.nbytes for weight in map(np.asarray, model.get_weights()))
    assert artifact.nbytes < alone.nbytes + weights
    assert check_parity(model, artifact, runtimes="litert").passed


@pytest.mark.parametrize(
    ("sizes", "target"),
    [
        ([{"length": 8}, {"length": 16}], None),
        ([{"length": 8}, {"length": [8]}], "gpu"),
        ([{"length": [8, 16]}], "gpu"),
        ([{"length": 8}, {"batch": 2}], "gpu"),
    ],
)
def test_sets_of_sizes_are_different_single_sizes_of_the_same_dimensions(sizes: Any, target: Any) -> None:
    with pytest.raises(ValueError, check=about("sizes")):
        export_litert(_model(), "model.tflite", target=target, sizes=sizes)
