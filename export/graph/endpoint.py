"""A model traced for serving, its variables still variables: what SavedModel and LiteRT are written from."""

import contextlib
import errno
import logging
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.errors import UnsupportedError, first_line
from keras_pe.export.graph.litert_forms import litert_forms
from keras_pe.export.graph.tracer import (
    convertible_control_flow,
    named_results,
    traced,
    untraceable,
    with_sizes_of_values,
)
from keras_pe.export.graph.view import GraphView
from keras_pe.export.model.signature.signature import Signature, input_specs
from keras_pe.export.model.watch.keras_internals import held_resources, named_for_scopes


class Endpoint:
    """A traced model that TensorFlow can write.

    Attributes:
        signature: The model's, see `with_sizes_of_values`.
        view: The traced graph.
        outputs: The names of the tensors that it returns, in the order of the signature's outputs.
    """

    def __init__(self, layers: Sequence[Any], signature: Signature, format: Format) -> None:
        """Traces the model, for any size of the dynamic dimensions, in inference mode.

        Args:
            layers: The model, then every layer in it.
            signature: Its signature.
            format: For the error.

        Raises:
            TracingError: If Keras cannot trace it.
        """
        self._model, self._format, self._variables = layers[0].name, format, layers[0].variables
        control_flow = litert_forms if format is Format.LITERT else convertible_control_flow
        self._traced = partial(traced, layers, control_flow=control_flow)
        try:
            self._archive, served = self._traced(lambda: _archived(layers, signature))
        except Exception as error:  # a layer may raise anything where a size is not known
            raise untraceable(format, self._model, error) from error
        self.signature = with_sizes_of_values(signature, served.structured_outputs)
        self.view = GraphView(served.graph, layers)
        self.outputs = [served.structured_outputs[spec.name].name for spec in signature.outputs]

    def write(self, folder: Path) -> None:
        """Writes the SavedModel, without a look at what came out.

        Raises:
            UnsupportedError: If TensorFlow cannot write it.
            OSError: If the disk is full, or the folder cannot be written.
        """
        import tensorflow as tf

        try:
            with _without_notices(), named_for_scopes(self._variables):  # it may be traced once more
                self._traced(lambda: self._archive.write_out(folder, verbose=False))
        except tf.errors.OpError as error:
            kinds = {tf.errors.ResourceExhaustedError: errno.ENOSPC, tf.errors.PermissionDeniedError: errno.EACCES}
            code = kinds.get(type(error), errno.EIO)
            raise OSError(code, os.strerror(code)) from error
        except (AssertionError, TypeError, ValueError, NotImplementedError, RuntimeError) as error:
            reason = f"TensorFlow cannot write it: {first_line(error)}."
            raise UnsupportedError(self._format, self._model, reason) from error


def _archived(layers: Sequence[Any], signature: Signature) -> tuple[Any, Any]:
    """Returns Keras' archive with one endpoint, and the concrete function of it."""
    import keras

    archive = keras.export.ExportArchive()
    # Whole layers are not tracked: every weight would be stored a second time.
    for resource in held_resources(layers):
        archive.track(resource)
    served = archive.add_endpoint(
        "serve", lambda *arrays: named_results(layers[0], signature, arrays), input_specs(signature)
    )
    return archive, served.get_concrete_function()


@contextlib.contextmanager
def _without_notices() -> Iterator[None]:
    """Keeps TensorFlow from telling where it writes: the folder is moved when it is whole."""
    import tensorflow as tf

    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
