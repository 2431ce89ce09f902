"""A Keras model in this process as the reference: its own answers, and those of its float64 rebuild."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.input_roles import Role, find_roles
from keras_pe.export.comparison.references.noise import measure_noise, measure_spread
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.comparison.stopwatch import Stopwatch
from keras_pe.export.errors import RuntimeRefusedError
from keras_pe.export.messages import first_line
from keras_pe.export.model.rebuild.cloning import with_dtype
from keras_pe.export.model.rebuild.float64 import float64_allowed, in_float64
from keras_pe.export.model.rebuild.precision import half_dtypes
from keras_pe.export.model.saved_file import load_model
from keras_pe.export.model.signature.model_signature import model_signature
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.model.watch.state import state_left_alone
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays, plain


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
        self.dimensions = self.signature.dimensions
        self.version = f"keras {keras.__version__}"
        self.roles: Mapping[str, Role]
        with state_left_alone():
            self.roles, unknown = find_roles(model, self.signature)
        watch.stage("find what the inputs are for")
        self._remark = f"; what its inputs are for is not known ({unknown})" if unknown else ""
        self.basis = f"a float64 rebuild of the model, at most 8 times Keras' own error{self._remark}"
        self.float64_model = self._rebuilt(in_float64)
        is_half = self.float64_model is not None and bool(half_dtypes(all_layers(model)))
        self.float32_model = self._rebuilt(lambda model: with_dtype(model, "float32")) if is_half else None
        self._noise: dict[str, Mapping[str, float]] = {}
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
        watch = watch or Stopwatch()
        model = load_model(path)
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

    def noise(self, cases: Sequence[Case]) -> Sequence[Mapping[str, float]]:
        new = [case for case in cases if case.name not in self._noise]  # several runtimes ask for the same
        if new:
            narrow, wide = self.float32_model or self.model, self.float64_model
            if wide is None:
                found = measure_spread(narrow, new, self.predict)
            else:
                found = measure_noise(narrow, wide, new, self.predict)
            self._noise.update(zip((case.name for case in new), found, strict=True))
        return [self._noise[case.name] for case in cases]

    def predict(self, model: Any, inputs: Mapping[str, Any]) -> Arrays:
        """Returns what a model of this signature returns.

        A warning is no refusal, though a suite of tests may make an error of it: Keras warns of some sizes of a sweep.
        """
        import keras

        tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = self.signature.call(model, tensors)
        return {name: plain(keras.ops.convert_to_numpy(tensor)) for name, tensor in outputs.items()}

    def _rebuilt(self, rebuild: Callable[[Any], Any]) -> Any:
        try:
            return rebuild(self.model)
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
