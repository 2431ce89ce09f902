"""A small attention model with rotary positions and relative biases, and the same with one fault in either.

    KERAS_BACKEND=torch python -m tests.export.parity.planted_positions FOLDER

writes the model, and for each fault the ONNX file of PyTorch's exporter. The tests call it in a subprocess.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

import keras_pe
from keras_pe.rotations.lookup import Table
from keras_pe.signal.rope_scalings import RopeScaling, rope_timescales

HEADS, CHANNELS, LAST = 2, 16, 4
SCALING = {"rope_type": "linear", "factor": 4.0}


def attention(
    turn: Callable[[Any, Any], Any] = lambda layer, x: layer(x),
    near: Callable[[Any], None] = lambda layer: None,
    **rotary: Any,
) -> keras.Model:
    """Returns the model, always with the same weights on one backend.

    Args:
        turn: Calls the rotary layer of the queries.
        near: Changes the layer of biases.
        **rotary: Other arguments of the rotary layer.
    """
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 8), name="x")
    projected = keras.layers.Dense(HEADS * CHANNELS, name="project")(x)
    heads = keras.layers.Reshape((-1, HEADS, CHANNELS), name="heads")(projected)
    # Each by a layer of its own: scores do not tell what becomes of both alike.
    queries = turn(keras_pe.RotaryPositionEncoding(**{"scaling": SCALING, **rotary}, name="turn"), heads)
    keys = keras_pe.RotaryPositionEncoding(scaling=SCALING, name="turn_keys")(heads)
    bias = keras_pe.RelativePositionBias(HEADS, num_buckets=8, max_distance=16, name="near")
    near(bias)
    scores = ops.einsum("bqhc,bkhc->bhqk", queries, keys) / CHANNELS**0.5 + bias(heads)
    shares = keras.layers.Softmax(name="shares")(scores)
    attended = keras.layers.Reshape((-1, HEADS * CHANNELS))(ops.einsum("bhqk,bkhc->bqhc", shares, heads))
    return keras.Model(x, keras.layers.Dense(3, name="head")(attended), name="attention")


def _cut(layer: Any, x: Any) -> Any:
    """Looks each position beyond the last of a short table up as that last one."""
    positions = ops.cumsum(ops.ones_like(x[..., 0, 0], dtype="int32"), axis=1) - 1
    return layer(x, positions=ops.minimum(positions, LAST))


def _round_rates() -> dict[str, Any]:
    rates = 1.0 / rope_timescales(**SCALING, channels=CHANNELS).timescales
    narrow = np.asarray(ops.convert_to_numpy(ops.cast(ops.cast(rates.astype("float32"), "bfloat16"), "float32")))
    return RopeScaling(1.0 / narrow.astype("float64")).parameters()


def _other_bucket(layer: Any) -> None:
    buckets = layer._buckets.rows.copy()
    buckets[16 - 2] += 1  # the bucket of a key two positions before the query
    layer._buckets = Table(buckets)


FAULTS: dict[str, tuple[Callable[[], keras.Model], str, str, str]] = {
    "layout": (
        lambda: attention(layout="interleaved"), "turn", "wrong layout", "With layout='interleaved' instead of 'halves'"
    ),
    "offset": (
        lambda: attention(lambda layer, x: layer(x, start_index=3)), "turn", "start index off", "positions offset by 3"
    ),
    "rates": (lambda: attention(scaling=_round_rates()), "turn", "rounded rates", "rates rounded to bfloat16"),
    "scaling": (lambda: attention(scaling=None), "turn", "missing scaling", "its scaling 'linear', factor 4"),
    "table": (lambda: attention(_cut), "turn", "clamped table", f"positions beyond {LAST} clipped to {LAST}"),
    "bucket": (lambda: attention(near=_other_bucket), "near", "other bucket", "distance -2 in bucket 3 instead of 2"),
}  # fmt: skip
"""A model with each fault, the layer at fault, the cause, and a part of the evidence."""


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    attention().save(folder / "model.keras")
    for name, (build, *_) in {"sound": (attention,), **FAULTS}.items():
        model = build()
        model(np.zeros((1, 5, 8), "float32"))
        model.export(folder / f"{name}.onnx", format="onnx", verbose=False)
