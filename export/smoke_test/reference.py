"""A Keras model as a function of arrays by name, which leaves its state alone."""

from collections.abc import Callable, Mapping
from typing import Any

from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.state import state_left_alone
from keras_pe.export.runtimes.runtime import Arrays, plain


def as_function(
    model: Any, signature: Signature, compiled: Callable[..., Any] = lambda call: call
) -> Callable[[Arrays], Arrays]:
    """Returns a model of this signature as a function.

    Args:
        model: The model, or the same in another precision.
        signature: Its signature.
        compiled: What is done to the function of tensors, such as `tf.function`.
    """
    import keras

    @compiled
    def call(arrays: Mapping[str, Any]) -> Any:
        with state_left_alone():
            return signature.call(model, arrays)

    def called(inputs: Arrays) -> Arrays:
        truths = call({name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()})
        return {name: plain(keras.ops.convert_to_numpy(truth)) for name, truth in truths.items()}

    return called
