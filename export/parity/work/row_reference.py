"""What every row is measured against: the Keras model compiled, or an artifact in its runtime."""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.messages import first_line
from keras_pe.export.model.rebuild.float64 import float64_allowed, in_float64
from keras_pe.export.model.watch.state import state_left_alone
from keras_pe.export.runtimes.runtime import Array, Arrays, RuntimeSpec, as_dtype
from keras_pe.export.runtimes.worker import Worker


class RowReference(Protocol):
    """Answers one batch after the other.

    Attributes:
        name: What the report calls it.
        version: Its package and version.
        inputs: What it takes.
        no_rebuild: Why it has no float64 rebuild; empty while none was needed, and where there is one.
    """

    name: str
    version: str
    inputs: tuple[TensorInfo, ...]
    no_rebuild: str

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns every output by name; the same for the same inputs, whatever was asked before."""
        ...

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        """Returns the float outputs of a float64 rebuild; none where there can be no rebuild."""
        ...

    def close(self) -> None:
        """Lets go of what it holds."""
        ...


class KerasRows:
    """A Keras model in this process, compiled for every shape where Keras runs on TensorFlow."""

    def __init__(self, model: Any, input_signature: Any) -> None:
        import keras

        from keras_pe.export.model.signature.model_signature import model_signature

        self._model = model
        self._signature = model_signature(model, input_signature)
        self._wide: Any = None
        self.no_rebuild = ""
        self.name: str = model.name
        self.version = f"keras {keras.__version__}"
        self.inputs = self._signature.inputs
        self._call = self._compiled() if keras.backend.backend() == "tensorflow" else self._plain

    @classmethod
    def load(cls, path: Path, input_signature: Any, modules: Sequence[str] = ()) -> "KerasRows":
        """Opens a `.keras` file, once the modules that register its layers are imported.

        Raises:
            ValueError: If Keras cannot make the model, in a process that knows no more than the file.
        """
        import keras

        import keras_pe  # noqa: F401 - registers the layers

        try:
            for module in modules:
                importlib.import_module(module)
            model = keras.saving.load_model(path, compile=False)
        except Exception as error:  # whatever a broken file or a foreign layer raises
            raise ValueError(
                f"The model must load in a process of its own. Received: {path}, which does not ({first_line(error)}). "
                "Put the code of its layers into a module that can be imported and register it with Keras, or run the "
                "check in this process: workers=0."
            ) from error
        return cls(model, input_signature)

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._call(inputs)

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        if self.no_rebuild:
            return {}
        try:
            self._wide = self._wide or in_float64(self._model)
            with float64_allowed(np.random.default_rng(0)):
                found = self._eager(self._wide, inputs)
        except Exception as error:  # no rebuild is possible, or a layer insists on its own precision
            self.no_rebuild = first_line(error)
            return {}
        return {name: array for name, array in found.items() if array.dtype == "float64"}

    def close(self) -> None:
        self._wide = None

    def _plain(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._eager(self._model, inputs)

    def _eager(self, model: Any, inputs: Mapping[str, Array]) -> Arrays:
        import keras

        tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
        with state_left_alone():
            answer = self._signature.call(model, tensors)
        return {name: keras.ops.convert_to_numpy(tensor) for name, tensor in answer.items()}

    def _compiled(self) -> Any:
        import tensorflow as tf

        specs = {
            spec.name: tf.TensorSpec([dim if isinstance(dim, int) else None for dim in spec.shape], spec.dtype)
            for spec in self.inputs
        }
        dtypes = {spec.name: as_dtype(spec.dtype) for spec in self.inputs}

        @tf.function(input_signature=[specs], autograph=False)  # type: ignore[untyped-decorator]
        def call(tensors: dict[str, Any]) -> dict[str, Any]:
            with state_left_alone():  # what a batch assigns is forgotten: a batch knows nothing of those before it
                return self._signature.call(self._model, tensors)

        def run(inputs: Mapping[str, Array]) -> Arrays:
            tensors = {name: tf.constant(inputs[name].astype(dtype, copy=False)) for name, dtype in dtypes.items()}
            return {name: tensor.numpy() for name, tensor in call(tensors).items()}

        return run


class ArtifactRows:
    """An artifact as the reference, in a process of its own."""

    def __init__(self, path: Path, spec: RuntimeSpec, timeout: float) -> None:
        self._worker = Worker(spec, timeout)
        self._worker.load(path)
        self.name = str(path)
        self.version = self._worker.version
        self.inputs = self._worker.inputs
        self.no_rebuild = "an artifact is what it is"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._worker.run(inputs)

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        return {}

    def close(self) -> None:
        self._worker.close()
