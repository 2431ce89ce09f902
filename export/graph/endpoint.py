"""A model traced for serving, its variables still variables: what SavedModel and LiteRT are written from."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import UnsupportedError
from keras_pe.export.graph.control_flow import convertible_control_flow
from keras_pe.export.graph.refusals import untraceable
from keras_pe.export.graph.sizes_of_values import with_sizes_of_values
from keras_pe.export.graph.time_steps import steps_as_rows
from keras_pe.export.graph.view import GraphView
from keras_pe.export.messages import first_line
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import lookup_tables, one_at_a_time
from keras_pe.export.model.watch.traceable import as_traceable


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
        self._model, self._format, self._layers = layers[0].name, format, layers
        try:
            with one_at_a_time, steps_as_rows(layers), convertible_control_flow():
                self._archive, served = as_traceable(layers, lambda: _archived(layers, signature))
        except Exception as error:  # a layer may raise anything where a size is not known
            raise untraceable(format, self._model, signature, error) from error
        self.signature = with_sizes_of_values(signature, served.structured_outputs)
        self.view = GraphView(served.graph, layers)
        self.outputs = [served.structured_outputs[spec.name].name for spec in signature.outputs]

    def write(self, folder: Path) -> None:
        """Writes the SavedModel, without a look at what came out.

        Raises:
            UnsupportedError: If TensorFlow cannot write it.
        """
        try:
            # It may be traced once more.
            with one_at_a_time, steps_as_rows(self._layers), convertible_control_flow(), _without_notices():
                as_traceable(self._layers, lambda: self._archive.write_out(folder, verbose=False))
        except (AssertionError, TypeError, ValueError, NotImplementedError, RuntimeError) as error:
            reason = f"TensorFlow cannot write it: {first_line(error)}."
            raise UnsupportedError(self._format, self._model, reason) from error


def _archived(layers: Sequence[Any], signature: Signature) -> tuple[Any, Any]:
    """Returns Keras' archive with one endpoint, and the concrete function of it."""
    import keras

    archive = keras.export.ExportArchive()
    # Whole layers are not tracked: every weight would be stored a second time.
    for table in lookup_tables(layers):
        archive.track(table)
    served = archive.add_endpoint("serve", *_served(layers[0], signature))
    return archive, served.get_concrete_function()


def _served(model: Any, signature: Signature) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the function that is served, with names for its results, and what it takes."""
    import tensorflow as tf

    def serve(*arrays: Any) -> dict[str, Any]:
        named = {spec.name: x for spec, x in zip(signature.inputs, arrays, strict=True)}
        results = signature.call(model, named)
        return {spec.name: tf.identity(results[spec.name]) for spec in signature.outputs}

    specs = [
        tf.TensorSpec([None if isinstance(dim, str) else dim for dim in spec.shape], spec.dtype, spec.name)
        for spec in signature.inputs
    ]
    return serve, specs


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
