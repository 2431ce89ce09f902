"""A Keras model in this process as the reference: its own answers, and those of its float64 rebuild."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.messages import first_line
from keras_pe.export.model.cloning import with_dtype
from keras_pe.export.model.keras_internals import all_layers
from keras_pe.export.model.model_signature import model_signature
from keras_pe.export.model.precision import half_dtypes
from keras_pe.export.model.rounding import noise_floor
from keras_pe.export.model.state import state_left_alone
from keras_pe.export.parity.inputs.cases import Case
from keras_pe.export.parity.inputs.input_roles import Role, find_roles
from keras_pe.export.parity.references.reference import Expectation
from keras_pe.export.parity.results import Array
from keras_pe.export.parity.stopwatch import Stopwatch
from keras_pe.export.runtimes.runtime import Arrays

_AT_ONCE = 2**22  # values that are nudged together: what that takes is several times their own memory
_SAMPLES = 3  # of rounding errors, where one run may have been lucky


class KerasReference:
    """A Keras model, its answers measured against those of the same model in float64 where there can be one.

    The model is called as it is; what it assigns to its variables is forgotten.
    """

    def __init__(
        self,
        model: Any,
        input_signature: Any = None,
        sizes: Mapping[str, Sequence[int]] | None = None,
        watch: Stopwatch | None = None,
    ) -> None:
        import keras

        watch = watch or Stopwatch()
        self.model = model
        self.signature = model_signature(model, input_signature, sizes=sizes)
        watch.stage("find the signature")
        self.name = model.name
        self.inputs = self.signature.inputs
        self.sizes = self.signature.sizes
        self.ranges = self.signature.ranges
        self.version = f"keras {keras.__version__}"
        self.roles: Mapping[str, Role]
        with state_left_alone():
            self.roles, unknown = find_roles(model, self.inputs, self.sizes, lambda x: self.signature.call(model, x))
        watch.stage("find what the inputs are for")
        self._remark = f"; what its inputs are for is not known ({unknown})" if unknown else ""
        self.basis = f"a float64 rebuild of the model, at most 8 times Keras' own error{self._remark}"
        self.float64_model = self._rebuilt("float64")
        self.float32_model = self._rebuilt("float32") if self.float64_model and half_dtypes(all_layers(model)) else None
        watch.stage("rebuild the model in float64")

    @classmethod
    def load(
        cls,
        path: Path,
        input_signature: Any = None,
        sizes: Mapping[str, Sequence[int]] | None = None,
        watch: Stopwatch | None = None,
    ) -> Self:
        """Opens a `.keras` file.

        Raises:
            ValueError: If it cannot be loaded, whatever a foreign layer raises.
        """
        import keras

        import keras_pe  # noqa: F401 - registers the layers

        watch = watch or Stopwatch()
        try:
            model = keras.saving.load_model(path, compile=False)
        except Exception as error:
            raise ValueError(f"{path} cannot be loaded: {type(error).__name__}: {first_line(error)}.") from error
        watch.stage("load the model")
        return cls(model, input_signature, sizes, watch)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.float64_model = self.float32_model = None

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        with state_left_alone():
            answers = tuple(self._answer(case) for case in cases)
        if self.float64_model is None:
            return answers
        reasons = [each.error for each in answers if each.outputs is not None and each.truth is None]
        if reasons and not any(each.truth is not None for each in answers):
            self.float64_model = self.float32_model = None  # a layer that insists on its own precision
            self.basis = self._by_dtype(f"the float64 rebuild does not run: {reasons[0]}")
            return tuple(replace(each, error=None) if each.outputs is not None else each for each in answers)
        return tuple(
            replace(each, outputs=None, error=f"its float64 rebuild refuses it: {each.error}", is_fair=False)
            if each.outputs is not None and each.truth is None
            else each
            for each in answers
        )

    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        try:
            with state_left_alone():
                return self.predict(self.model, inputs)
        except Exception as error:  # whatever a layer raises: it refuses
            raise RuntimeRefusedError(f"{type(error).__name__}: {first_line(error)}") from error

    def noise(self, case: Case) -> Mapping[str, float]:
        model = self.float32_model or self.model
        if self.float64_model is None:
            return {}
        floors: dict[str, float] = {}
        own, wider = model.trainable_variables, self.float64_model.trainable_variables
        try:
            for seed in range(_SAMPLES):
                rng = np.random.default_rng(seed)
                inputs = {name: _nudged(array, rng) for name, array in case.inputs.items()}
                weights = [_tensor(_nudged(_numpy(v), rng), v.dtype) for v in own]
                with state_left_alone(zip(own, weights, strict=True)):
                    narrow = self.predict(model, inputs)
                _assign(wider, weights)  # the rebuild is nobody's: there is no room for its weights twice
                weights.clear()
                with float64_allowed(), state_left_alone():
                    wide = self.predict(self.float64_model, inputs)
                for name, truth in wide.items():
                    if truth.dtype == "float64":
                        floors[name] = max(floors.get(name, 0.0), noise_floor(narrow[name], truth))
        finally:
            _assign(wider, (v.value for v in own))
        return floors

    def predict(self, model: Any, inputs: Mapping[str, Any]) -> Arrays:
        """Returns what a model of this signature returns.

        A warning is no refusal, though a suite of tests may make an error of it: Keras warns of some sizes of a sweep.
        """
        import keras

        tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = self.signature.call(model, tensors)
        return {name: keras.ops.convert_to_numpy(tensor) for name, tensor in outputs.items()}

    def _rebuilt(self, dtype: str) -> Any:
        try:
            with float64_allowed():
                return with_dtype(self.model, dtype)
        except ValueError as error:
            self.basis = self._by_dtype(f"no float64 rebuild is possible: {first_line(error)}")
            return None

    def _by_dtype(self, reason: str) -> str:
        return f"Keras' own answer ({reason}), tolerance by dtype{self._remark}"

    def _answer(self, case: Case) -> Expectation:
        """Returns the answer; where the rebuild alone refuses, its error stands beside the outputs."""
        outputs, error = self._tried(lambda: self.predict(self.model, case.inputs))
        if outputs is None or self.float64_model is None:
            return Expectation(case, outputs, error=error)
        with float64_allowed():
            wide, error = self._tried(lambda: self.predict(self.float64_model, case.inputs))
        if wide is None:
            return Expectation(case, outputs, error=error)
        truth = {name: array for name, array in wide.items() if array.dtype == "float64"}
        narrow = None
        if self.float32_model is not None:
            narrow, _ = self._tried(lambda: self.predict(self.float32_model, case.inputs))
        return Expectation(case, outputs, truth, in_float32=narrow)

    def _tried(self, run: Callable[[], Arrays]) -> tuple[Arrays | None, str | None]:
        try:
            return run(), None
        except Exception as error:  # whatever a layer raises is the model's answer to this case
            return None, f"{type(error).__name__}: {first_line(error)}"


def float64_allowed() -> contextlib.AbstractContextManager[Any]:
    """Returns a context in which the backend computes in float64 where it is asked to; JAX does not by itself."""
    import keras

    if keras.backend.backend() != "jax":
        return contextlib.nullcontext()
    import jax

    context: contextlib.AbstractContextManager[Any] = jax.enable_x64(True)
    return context


def _nudged(array: Array, rng: np.random.Generator) -> Array:
    """Returns floats that are off by up to a unit in the last place of float32; other values as they are."""
    if array.dtype.kind != "f":
        return array
    nudged = array.flatten()
    for start in range(0, nudged.size, _AT_ONCE):
        part = nudged[start : start + _AT_ONCE]
        part[...] = part * (1 + 2.0**-23 * rng.uniform(-1, 1, part.shape))
    return nudged.reshape(array.shape)


def _assign(variables: Iterable[Any], values: Iterable[Any]) -> None:
    """Gives variables the values of others, in their own precision."""
    import keras

    with float64_allowed():
        for variable, value in zip(variables, values, strict=True):
            variable.assign(keras.ops.cast(value, variable.dtype))


def _numpy(variable: Any) -> Array:
    import keras

    array: Array = keras.ops.convert_to_numpy(variable.value)
    return array


def _tensor(array: Array, dtype: str) -> Any:
    import keras

    return keras.ops.cast(keras.ops.convert_to_tensor(array), dtype)
