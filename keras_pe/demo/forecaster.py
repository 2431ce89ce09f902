"""A small Transformer that forecasts the growth over the coming year from the monthly changes of the past."""

from collections.abc import Callable
from typing import Any

import keras

from keras_pe.demo.series import Windows
from keras_pe.layers import SinusoidalPositionEncoding

CHANNELS, HEADS, BLOCKS = 32, 4, 2
EPOCHS, BATCH = 12, 32


def build_forecaster(
    blocks: int = BLOCKS, is_causal: bool = True, activation: str = "gelu", epsilon: float = 1e-3, **positions: Any
) -> keras.Model:
    """Returns the untrained model: `(batch, length, 1)` monthly changes to `(batch, length, 1)` growth, any length.

    Args:
        blocks: How many blocks of attention and two layers it has.
        is_causal: Whether a month sees those before it alone.
        activation: Between the two layers of a block.
        epsilon: Epsilon of the normalizations.
        **positions: Arguments of `SinusoidalPositionEncoding`.
    """
    changes = keras.Input((None, 1), name="changes")
    x = keras.layers.Dense(CHANNELS, name="embed")(changes)
    x = SinusoidalPositionEncoding(name="positions", **positions)(x)
    for block in range(blocks):
        normed = keras.layers.LayerNormalization(epsilon=epsilon, name=f"norm_{block}a")(x)
        attention = keras.layers.MultiHeadAttention(HEADS, CHANNELS // HEADS, name=f"attention_{block}")
        x = x + attention(normed, normed, use_causal_mask=is_causal)
        normed = keras.layers.LayerNormalization(epsilon=epsilon, name=f"norm_{block}b")(x)
        hidden = keras.layers.Dense(2 * CHANNELS, activation=activation, name=f"widen_{block}")(normed)
        x = x + keras.layers.Dense(CHANNELS, name=f"narrow_{block}")(hidden)
    x = keras.layers.LayerNormalization(epsilon=epsilon, name="norm")(x)
    return keras.Model(changes, keras.layers.Dense(1, name="growth")(x), name="forecaster")


def train(model: keras.Model, windows: Windows, progress: Callable[[int, int, float], None]) -> None:
    """Trains the model in place; `progress` receives the batches done, their total, and the loss so far."""
    batches = -(-len(windows.last) // BATCH)
    schedule = keras.optimizers.schedules.CosineDecay(3e-3, EPOCHS * batches)
    model.compile(keras.optimizers.Adam(schedule), "mse")
    model.fit(
        windows.changes, windows.growth, BATCH, EPOCHS, verbose=0, callbacks=[_Progress(EPOCHS * batches, progress)]
    )


class _Progress(keras.callbacks.Callback):  # type: ignore[misc]
    def __init__(self, total: int, tell: Callable[[int, int, float], None]) -> None:
        super().__init__()
        self._done, self._total, self._tell = 0, total, tell

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._done += 1
        self._tell(self._done, self._total, float((logs or {})["loss"]))
