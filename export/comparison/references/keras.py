"""A Keras model in this process as the reference: its own answers, and the answers of its float64 rebuild."""

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.inputs.cases import Case
from keras_pe.export.comparison.inputs.input_roles import find_roles
from keras_pe.export.comparison.inputs.role import Role
from keras_pe.export.comparison.references.noise import SAMPLES, measure_noise
from keras_pe.export.comparison.references.reference import Expectation, Reference
from keras_pe.export.errors import RuntimeRefusedError, first_line
from keras_pe.export.model.rebuild import float64_allowed, half_dtypes, in_float64, with_dtype
from keras_pe.export.model.signature.fixed_sizes import FixedSizes
from keras_pe.export.model.signature.model_signature import find_signature
from keras_pe.export.model.signature.signature import input_specs
from keras_pe.export.model.watch.decision_boundaries import Decisions
from keras_pe.export.model.watch.keras_internals import all_layers, loops_as_graphs, open_scopes
from keras_pe.export.model.watch.nested_arguments import FlatModel
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runtime import Arrays, as_dtype, plain


class KerasReference(Reference):
    """A Keras model, whose answers are compared with those of its float64 rebuild if there is one.

    The model itself is called, and changes of its variables are reverted. The roles of its inputs and its rebuilds are
    computed on first use.

    Args:
        model: A built Keras model.
        input_signature: As in `model_signature`.
        sizes: As in `model_signature`.
        inputs: Examples of the inputs, as in `model_signature`.
        ranges: The valid values of inputs, as in `model_signature`.
        fixed: The sizes that the artifacts fix.
        compiled: Whether `expect` runs the model as one graph for all sizes, if Keras runs on TensorFlow.
    """

    def __init__(
        self,
        model: Any,
        input_signature: Any = None,
        sizes: Mapping[str, Sequence[int]] | None = None,
        *,
        inputs: Sequence[Mapping[str, Array]] = (),
        ranges: Mapping[str, tuple[float, float]] | None = None,
        fixed: FixedSizes | None = None,
        compiled: bool = False,
    ) -> None:
        import keras

        from keras_pe.export.model.stateless import exchanged_states  # imports Keras

        self.model = model
        self.signature = find_signature(model, input_signature, sizes=sizes, inputs=inputs, ranges=ranges, fixed=fixed)
        self.name: str = model.name
        self.inputs = self.signature.inputs
        self.sizes = self.signature.sizes
        self.dimensions = self.signature.dimensions
        self.states = exchanged_states(all_layers(model), self.inputs)
        self.fixed = {} if self.signature.fixed_sizes is None else self.signature.fixed_sizes.by_name
        self.version = f"keras {keras.__version__}"
        self.no_rebuild = ""
        self._noise: dict[tuple[str | None, bool, bool], WeakKeyDictionary[Case, Mapping[str, Array]]] = {}
        self._is_traced = compiled and keras.backend.backend() == "tensorflow"
        self._call = self._as_function(model)

    def close(self) -> None:
        self.float64_model = self.float32_model = None

    @property
    def basis(self) -> str:
        unknown = self._found_roles[1]
        remark = f"; the roles of its inputs are unknown ({unknown})" if unknown else ""
        if self.float64_model is None:
            return f"Keras' own answer ({self.no_rebuild}), tolerance by dtype{remark}"
        return f"a float64 rebuild of the model, at most 8 times Keras' own error{remark}"

    @cached_property
    def roles(self) -> Mapping[str, Role]:  # type: ignore[override]  # computed on first use
        return self._found_roles[0]

    @cached_property
    def _found_roles(self) -> tuple[dict[str, Role], str | None]:
        with state_left_alone():
            return find_roles(self.model, self.signature, self.decisions)

    @cached_property
    def decisions(self) -> Decisions | None:  # type: ignore[override]  # computed on first use
        """The decisions of the model on its inputs.

        None on a backend other than TensorFlow, or if the model cannot be traced.
        """
        import keras

        if keras.backend.backend() != "tensorflow":
            return None
        specs = {spec.name: (spec.shape, spec.dtype) for spec in self.inputs}
        try:
            return Decisions(FlatModel(self.model, self.signature.arguments, specs))
        except Exception:  # a layer may raise any error if a size is unknown
            return None

    @cached_property
    def float64_model(self) -> Any:
        """The rebuild in float64, or None; `no_rebuild` then has the reason."""
        try:
            return in_float64(self.model)
        except ValueError as error:
            self.no_rebuild = f"no float64 rebuild is possible: {first_line(error)}"
            return None

    @cached_property
    def float32_model(self) -> Any:
        """The rebuild in float32 of a model that computes in 16 bits; None for other models or without a rebuild."""
        if self.float64_model is None or not half_dtypes(all_layers(self.model)):
            return None
        try:
            return with_dtype(self.model, "float32")
        except ValueError:  # not seen yet, since a model with a float64 rebuild also has a float32 rebuild
            return None

    def answer(self, cases: tuple[Case, ...]) -> tuple[Expectation, ...]:
        _ = self.float64_model, self.float32_model  # built here, since `state_left_alone` would revert their weights
        with state_left_alone(), loops_as_graphs():
            answers = tuple(self._answer(case) for case in cases)
        if self.float64_model is None:
            return answers
        reasons = [each.error for each in answers if each.outputs is not None and each.truth is None]
        if reasons and not any(each.truth is not None for each in answers):
            self.float64_model = self.float32_model = None  # a layer may require its own precision
            self.no_rebuild = f"the float64 rebuild does not run: {reasons[0]}"
            return tuple(replace(each, error=None) if each.outputs is not None else each for each in answers)
        return tuple(
            replace(each, outputs=None, error=f"the float64 rebuild refuses it: {each.error}", is_fair=False)
            if each.outputs is not None and each.truth is None
            else each
            for each in answers
        )

    def expect(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._ask(lambda: self._call(inputs))

    def expect_eager(self, inputs: Mapping[str, Array]) -> Arrays:
        with state_left_alone():
            return self._ask(lambda: self.predict(self.model, inputs))

    def expect_uncached(self, tokens: Array, context: Sequence[Array] = (), *, is_wide: bool) -> Array:
        import keras

        model = self.float64_model if is_wide else self.model
        allowed = float64_allowed() if is_wide else contextlib.nullcontext()
        with state_left_alone(), allowed:
            found = self._ask(
                lambda: {"logits": keras.ops.convert_to_numpy(model.call_uncached(tokens[None], context))}
            )
        logits: Array = found["logits"][0]
        return logits

    def expect_in_float32(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._ask(lambda: self._call_in_float32(inputs))

    def expect_traced(self, inputs: Mapping[str, Array]) -> Arrays:
        return self._ask(lambda: self._as_graph(self.model, for_all_sizes=False)(inputs))

    def truth(self, inputs: Mapping[str, Array]) -> Arrays:
        if self.float64_model is None:
            return {}
        with state_left_alone():
            return self._truth(inputs, np.random.default_rng(0))

    def noise(
        self, cases: Sequence[Case], precision: str | None = None, *, by_row: bool = False, is_brief: bool = False
    ) -> Sequence[Mapping[str, Array]]:
        how = precision, by_row, is_brief
        known = self._noise.setdefault(how, WeakKeyDictionary())
        new = [case for case in cases if case not in known]  # several runtimes need the same floors
        if new:
            with loops_as_graphs():
                try:
                    known.update(zip(new, self._measured_noise(new, *how), strict=True))
                except Exception:  # a layer may raise any error near one case; the other cases still get their noise
                    known.update({case: self._noise_of(case, *how) for case in new})
        return [known[case] for case in cases]

    def _noise_of(self, case: Case, *how: Any) -> Mapping[str, Array]:
        try:
            return self._measured_noise([case], *how)[0]
        except Exception:  # the model may raise any error on perturbed inputs
            return {}

    def _measured_noise(
        self, cases: Sequence[Case], precision: str | None, by_row: bool, is_brief: bool
    ) -> list[dict[str, Array]]:
        """Returns the noise floors. Outputs without float64 values and other precisions use the change of the model."""
        narrow = self.float32_model or self.model
        if precision is not None:  # its rounding may move any value across a border
            return measure_noise(narrow, None, cases, self.predict, precision, by_row=by_row)
        exact = {name: role.borders.exact for name, role in self.roles.items()}
        options: dict[str, Any] = {"by_row": by_row, "exact": exact, "samples": 1 if is_brief else SAMPLES}
        measure = partial(measure_noise, narrow, cases=cases, predict=self.predict, **options)
        if self.float64_model is None:
            return measure(float64_model=None)
        found = measure(float64_model=self.float64_model)
        floats = {spec.name for spec in self.signature.outputs if is_float(as_dtype(spec.dtype))}
        if all(floats <= each.keys() for each in found):
            return found
        moved = measure(float64_model=None)
        return [far | near for far, near in zip(moved, found, strict=True)]

    def predict(self, model: Any, inputs: Mapping[str, Any]) -> Arrays:
        """Returns the outputs of a model with this signature.

        Warnings are ignored, since Keras warns of some sizes of a sweep, and a test suite may turn warnings into
        errors.
        """
        import keras

        tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = self.signature.call(model, tensors)
        return {name: plain(keras.ops.convert_to_numpy(tensor)) for name, tensor in outputs.items()}

    @cached_property
    def _call_in_float32(self) -> Callable[[Mapping[str, Array]], Arrays]:
        return self._call if self.float32_model is None else self._as_function(self.float32_model)

    def _as_function(self, model: Any) -> Callable[[Mapping[str, Array]], Arrays]:
        """Returns a model with this signature as a function of arrays."""
        if self._is_traced:
            return self._as_graph(model, for_all_sizes=True)

        def run(inputs: Mapping[str, Array]) -> Arrays:
            with state_left_alone():
                return self.predict(model, inputs)

        return run

    def _as_graph(self, model: Any, *, for_all_sizes: bool) -> Callable[[Mapping[str, Array]], Arrays]:
        """Returns a model as a `tf.function` of arrays, traced once for all sizes or for each size."""
        import tensorflow as tf

        specs = {spec.name: spec for spec in input_specs(self.signature)}

        @tf.function(input_signature=[specs] if for_all_sizes else None, autograph=False)  # type: ignore[untyped-decorator]
        def call(tensors: dict[str, Any]) -> dict[str, Any]:
            with state_left_alone():  # state changes are reverted, so that batches are independent
                outputs: dict[str, Any] = self.signature.call(model, tensors)
                return outputs

        def run(inputs: Mapping[str, Array]) -> Arrays:
            arrays = {spec.name: inputs[spec.name].astype(as_dtype(spec.dtype), copy=False) for spec in self.inputs}
            with open_scopes():  # the first call traces it
                outputs = call({name: tf.constant(array) for name, array in arrays.items()})
            return {name: plain(tensor.numpy()) for name, tensor in outputs.items()}

        return run

    def _truth(self, inputs: Mapping[str, Array], rng: np.random.Generator | None = None) -> Arrays:
        with float64_allowed(rng):
            wide = self._ask(lambda: self.predict(self.float64_model, inputs))
        return {name: array for name, array in wide.items() if array.dtype == "float64"}

    def _answer(self, case: Case) -> Expectation:
        """Returns the answer. If only the rebuild refuses, the answer has its error beside the outputs."""
        try:
            outputs = self._ask(lambda: self.predict(self.model, case.inputs))
        except RuntimeRefusedError as error:
            return Expectation(case, None, error=str(error))
        if self.float64_model is None:
            return Expectation(case, outputs)
        try:
            truth = self._truth(case.inputs)
        except RuntimeRefusedError as error:
            return Expectation(case, outputs, error=str(error))
        narrow = None
        if self.float32_model is not None:
            with contextlib.suppress(RuntimeRefusedError):
                narrow = self._ask(lambda: self.predict(self.float32_model, case.inputs))
        return Expectation(case, outputs, truth, in_float32=narrow)

    def _ask(self, run: Callable[[], Arrays]) -> Arrays:
        try:
            return run()
        except Exception as error:  # any error of a layer counts as the model's answer
            raise RuntimeRefusedError(f"{type(error).__name__}: {first_line(error)}") from error
