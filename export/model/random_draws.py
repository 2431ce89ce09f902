"""Random numbers of Keras on TensorFlow as arithmetic on integers, from the state of a generator.

TensorFlow draws with the generator Philox4x32-10. This module writes its rounds with plain operators, so that each
runtime draws the same bits. Uniform numbers and integers are equal to those of Keras; normal numbers are equal but for
the rounding of logarithm, sine and cosine.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from keras_pe.export.model.watch.keras_internals import random_functions
from keras_pe.export.model.watch.temporary_patches import replaced_functions

_HALF, _WORD = 2**16, 2**32  # the number of values of 16 and of 32 bits
_FACTORS = np.array([[0xD2511F53], [0xCD9E8D57]])
_KEY_STEPS = np.array([[0x9E3779B9], [0xBB67AE85]])
_ROUNDS = 10
_SCRAMBLING_KEYS = np.array([[0x3EC8F720], [0x02461E29]])  # TensorFlow's, which turn a seed into a key and a counter
_SEED_RANGE = 2**31 - 2  # Keras reduces a seed to this range
_LEAST = np.float32(1e-7)  # TensorFlow replaces smaller numbers before a logarithm
_FRACTION = 2**23  # the number of uniform float32 numbers


def draws_as_arithmetic() -> AbstractContextManager[None]:
    """Returns a context in which Keras draws its numbers without random operators, in this thread.

    The functions are `normal`, `uniform`, `randint` of int32, and `dropout`. All other functions are unchanged.
    """
    replaced: dict[str, Callable[..., Any]] = {
        "normal": _normal,
        "uniform": _uniform,
        "randint": _randint,
        "dropout": _dropout,
    }
    return replaced_functions((random_functions(), name, function) for name, function in replaced.items())


def _normal(usual: Any, shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    from keras import backend, ops

    dtype = dtype or backend.floatx()
    wide = dtype if dtype == "float64" else "float32"
    count = _count(shape)
    pairs = (count + 1) // 2
    draws = ops.reshape(ops.cast(_fractions(seed, 2 * pairs), wide), (-1, 2))
    radius = ops.sqrt(-2 * ops.log(ops.maximum(draws[:, :1], ops.cast(_LEAST, wide))))
    angle = draws[:, 1:] * ops.cast(np.float32(2 * np.pi) if wide == "float32" else 2 * np.pi, wide)
    numbers = ops.reshape(radius * ops.concatenate([ops.sin(angle), ops.cos(angle)], axis=1), (-1,))[:count]
    return ops.cast(ops.reshape(numbers, shape), dtype) * ops.cast(stddev, dtype) + ops.cast(mean, dtype)


def _uniform(usual: Any, shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    from keras import backend, ops

    dtype = dtype or backend.floatx()
    low, high = ops.cast(minval, dtype), ops.cast(maxval, dtype)
    draws = ops.reshape(_fractions(seed, _count(shape)), shape)
    return ops.cast(draws, dtype) * (high - low) + low


def _randint(usual: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    from keras import ops

    if dtype != "int32":
        return usual(shape, minval, maxval, dtype, seed)
    low, high = (ops.cast(each, "int64") for each in (minval, maxval))
    return ops.cast(ops.reshape(_words(seed, _count(shape)), shape) % (high - low) + low, dtype)


def _dropout(usual: Any, inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
    from keras import ops

    if rate in (0.0, 1.0):
        return usual(inputs, rate, noise_shape, seed)
    own = ops.shape(inputs)
    shape = own if noise_shape is None else [own[axis] if n is None else n for axis, n in enumerate(noise_shape)]
    draws = ops.reshape(_fractions(seed, _count(shape)), shape)
    return ops.where(draws >= rate, inputs * (1 / (1 - rate)), ops.zeros_like(inputs))


def _fractions(seed: Any, count: Any) -> Any:
    """Returns float32 numbers from 0 to below 1, `[count]`."""
    from keras import ops

    return ops.cast(_words(seed, count) % _FRACTION, "float32") / _FRACTION


def _words(seed: Any, count: Any) -> Any:
    """Returns whole numbers of 32 bits as int64, `[count]`.

    Args:
        seed: A seed of `keras.random`. A generator steps on.
        count: The number of draws, a scalar tensor or an integer.
    """
    from keras import ops

    seeds = ops.reshape(ops.cast(random_functions().draw_seed(seed), "int64") % _SEED_RANGE, (2, 1))
    even, odd = _run_rounds(seeds, ops.zeros_like(seeds), ops.cast(_SCRAMBLING_KEYS, "int64"))
    groups = ops.reshape(ops.arange((count + 3) // 4, dtype="int64"), (1, -1))
    zeros = ops.zeros_like(groups)
    keys = ops.concatenate([even[:1], odd[:1]])
    parts = _run_rounds(ops.concatenate([groups, zeros + even[1:]]), ops.concatenate([zeros, zeros + odd[1:]]), keys)
    return ops.reshape(ops.transpose(ops.stack(parts, axis=1), (2, 0, 1)), (-1,))[:count]


def _run_rounds(even: Any, odd: Any, keys: Any) -> tuple[Any, Any]:
    """Returns the words of counters after the rounds of Philox4x32-10.

    Args:
        even: The words 0 and 2 of each counter, `[2, counters]`.
        odd: The words 1 and 3 of each counter, `[2, counters]`.
        keys: The two words of the key, `[2, 1]`.
    """
    from keras import ops

    factors = ops.cast(_FACTORS, "int64")
    for number in range(_ROUNDS):
        low, high = even % _HALF * factors, even // _HALF * factors
        upper = (high + low // _HALF) // _HALF
        lower = (low + high % _HALF * _HALF) % _WORD
        key = (keys + number * _KEY_STEPS) % _WORD
        even = ops.bitwise_xor(ops.bitwise_xor(upper[::-1], odd), key)
        odd = lower[::-1]
    return even, odd


def _count(shape: Any) -> Any:
    """Returns the number of elements of a shape, a tensor or a sequence of integers and scalar tensors."""
    from keras import ops

    if not ops.is_tensor(shape) and all(isinstance(size, int) for size in shape):
        return int(np.prod(shape, dtype=np.int64))
    sizes = shape if ops.is_tensor(shape) else ops.stack([ops.cast(size, "int64") for size in shape])
    return ops.prod(ops.cast(sizes, "int64"))
