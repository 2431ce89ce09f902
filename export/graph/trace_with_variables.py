"""The trace of a model for SavedModel and LiteRT, in which variables stay variables."""

import errno
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_file import SIGNATURE
from keras_pe.export.errors import UnsupportedError, first_line
from keras_pe.export.graph.graph_queries import GraphView
from keras_pe.export.graph.litert_forms import litert_forms
from keras_pe.export.graph.trace import (
    convertible_control_flow,
    named_results,
    trace_convertible,
    untraceable,
    with_sizes_of_values,
)
from keras_pe.export.graph.unfused import Unfused
from keras_pe.export.model.signature.signature import Signature, input_specs
from keras_pe.export.model.watch.keras_internals import held_resources, named_for_scopes
from keras_pe.export.model.watch.temporary_patches import tensorflow_log


class Endpoint:
    """A traced model that TensorFlow can write.

    Attributes:
        signature: The signature of the model, see `with_sizes_of_values`.
        view: The traced graph.
        outputs: The names of the graph's output tensors, in the order of the signature's outputs.
        paths: The path of the operator that computes each output, by the name of the output.
        keys: The names of the signatures in the written SavedModel.
        unfused: The recurrent layers that stay loops although LiteRT has an operator, with the reasons.
    """

    def __init__(
        self,
        layers: Sequence[Any],
        signature: Signature,
        format: Format,
        recurrences: str = "loops",
        has_fourier: bool = True,
    ) -> None:
        """Traces the model in inference mode, for all sizes of the dynamic dimensions.

        Args:
            layers: The model, then every layer in it.
            signature: The model's signature.
            format: The format, for the error.
            recurrences: See `litert_forms`.
            has_fourier: See `litert_forms`.

        Raises:
            TracingError: If Keras cannot trace the model.
        """
        self._model, self._format, self._variables = layers[0].name, format, layers[0].variables
        self.unfused = Unfused()
        for_litert = partial(litert_forms, layers, recurrences, self.unfused, has_fourier)
        control_flow = for_litert if format is Format.LITERT else convertible_control_flow
        self._traced = partial(trace_convertible, layers, control_flow=control_flow)
        several = getattr(layers[0], "signatures", None)  # The calls of a decoder have a few fixed lengths.
        self.keys = [*several] if several else [SIGNATURE]
        try:
            self._archive, served = self._traced(lambda: _make_archive(layers, several or {"serve": signature}))
        except Exception as error:  # a layer may raise any error if a size is unknown
            raise untraceable(format, self._model, error) from error
        self.signature = with_sizes_of_values(signature, served.structured_outputs)
        self.view = GraphView(served.graph, layers)
        self.outputs = [served.structured_outputs[spec.name].name for spec in signature.outputs]

    @property
    def paths(self) -> dict[str, str]:
        nodes = {node.name: node for node in self.view.definition.node}

        def path(name: str) -> str:
            node = nodes[name.partition(":")[0]]
            return path(node.input[0]) if node.op == "Identity" and node.input else str(node.name)

        names = [spec.name for spec in self.signature.outputs]
        return {name: path(output) for name, output in zip(names, self.outputs, strict=True)}

    def write(self, folder: Path) -> None:
        """Writes the SavedModel without checking it.

        Raises:
            UnsupportedError: If TensorFlow cannot write the SavedModel.
            OSError: If the disk is full, or the folder is read-only.
        """
        import tensorflow as tf

        try:
            # Writing may trace the model again. A message about the folder would name a temporary path.
            with tensorflow_log(logging.WARNING), named_for_scopes(self._variables):
                self._traced(lambda: self._archive.write_out(folder, verbose=False))
        except tf.errors.OpError as error:
            kinds = {tf.errors.ResourceExhaustedError: errno.ENOSPC, tf.errors.PermissionDeniedError: errno.EACCES}
            code = kinds.get(type(error), errno.EIO)
            raise OSError(code, os.strerror(code)) from error
        except (AssertionError, TypeError, ValueError, NotImplementedError, RuntimeError) as error:
            reason = f"TensorFlow cannot write it: {first_line(error)}."
            raise UnsupportedError(self._format, self._model, reason) from error


def _make_archive(layers: Sequence[Any], signatures: Mapping[str, Signature]) -> tuple[Any, Any]:
    """Returns a Keras `ExportArchive` with an endpoint for each signature, and the concrete function of the first."""
    import keras

    archive = keras.export.ExportArchive()
    # Track resources instead of whole layers: the archive would store every weight of a tracked layer twice.
    for resource in held_resources(layers):
        archive.track(resource)
    served = [
        archive.add_endpoint(name, partial(_call, layers[0], signature), input_specs(signature))
        for name, signature in signatures.items()
    ]
    return archive, served[0].get_concrete_function()


def _call(model: Any, signature: Signature, *arrays: Any) -> Any:
    return named_results(model, signature, arrays)
