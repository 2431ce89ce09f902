"""Keras' own conformity test of a layer: configuration, symbolic and eager calls, training, mixed precision, saving."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
from keras.src import testing

from keras_pe import LearnedPositionEmbedding, SinusoidalPositionEncoding
from tests.layers.configurations import CONFIGURATIONS

# Keras' test trains a model of this layer alone, from a generator with the default `shuffle=True`, and warns of both.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*shuffle=True:UserWarning"),
    pytest.mark.filterwarnings("ignore:The model does not have any trainable weights:UserWarning"),
]


class LayerTest(testing.TestCase):
    """Lends Keras' `run_layer_test` to pytest's parametrization."""

    def runTest(self) -> None:  # noqa: N802  unittest's name
        """Nothing: the instance is only used for its assertions."""


@pytest.fixture(autouse=True)
def tracebacks_as_before() -> Iterator[None]:
    """Keras' TestCase leaves them unfiltered for the whole process."""
    was_filtered = keras.config.is_traceback_filtering_enabled()
    yield
    if was_filtered:
        keras.config.enable_traceback_filtering()


def conform(layer: type, config: dict[str, Any], shape: tuple[int, ...], weights: int) -> None:
    channels = shape[-1] * (2 if config.get("combine") == "concatenate" else 1)
    LayerTest().run_layer_test(
        layer,
        init_kwargs=config,
        input_shape=shape,
        expected_output_shape=(*shape[:-1], channels),
        expected_num_trainable_weights=weights,
        expected_num_non_trainable_weights=0,
        expected_num_seed_generators=0,
        expected_num_losses=0,
        supports_masking=True,
    )


@pytest.mark.slow_rows(11)
@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_every_configuration_passes_keras_own_test_of_a_layer(config: dict[str, Any]) -> None:
    conform(SinusoidalPositionEncoding, config, (2, 5, 6), weights=0)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 3, 4, 8), (1, 2, 3, 2, 13)])
def test_grids_pass_keras_own_test_of_a_layer(shape: tuple[int, ...]) -> None:
    conform(SinusoidalPositionEncoding, {}, shape, weights=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config", [{}, {"combine": "concatenate"}, {"combine": "replace"}, {"initializer": "sinusoidal"}]
)
def test_learned_positions_pass_keras_own_test_of_a_layer(config: dict[str, Any]) -> None:
    conform(LearnedPositionEmbedding, {"max_length": 12, **config}, (2, 5, 6), weights=1)


def test_the_table_of_configurations_is_long_enough_and_varied() -> None:
    assert len(CONFIGURATIONS) >= 20
    used = {key for config in CONFIGURATIONS.values() for key in config}
    assert used == {
        "min_timescale", "max_timescale", "start_index", "layout", "endpoint", "timescales", "combine", "max_length",
    }  # fmt: skip
    assert np.unique([str(config) for config in CONFIGURATIONS.values()]).size == len(CONFIGURATIONS)
