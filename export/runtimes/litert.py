"""Runs a LiteRT file, through its signature or by the order of its tensors."""

import importlib.metadata
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import ml_dtypes  # noqa: F401 - without it the interpreter cannot say that a tensor is of bfloat16
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.artifacts.litert_file import (
    chosen_signature,
    conditions,
    constants,
    foreign_operators,
    interface_names,
    quantized_constants,
    signature_keys,
    stored_tensors,
)
from keras_pe.export.runtimes.litert_intermediates import InspectedLiteRT
from keras_pe.export.runtimes.runner import in_order
from keras_pe.export.runtimes.runtime import INTEGERS, NUMBERS, STEPS, Array, Arrays, tensor_info

_FOREIGN = (
    "the file has TensorFlow operators ({}), and this LiteRT has only built-in ones. Export the model with "
    "`export_litert`, or convert it without `tf.lite.OpsSet.SELECT_TF_OPS`"
)


class LiteRTRuntime:
    """A LiteRT file in the interpreter."""

    def __init__(self, path: str, xnnpack: bool = True) -> None:
        """Loads the file.

        Args:
            path: The file.
            xnnpack: Whether XNNPACK computes the operators that it has. Otherwise LiteRT's own kernels compute all.

        Raises:
            ValueError: If it has operators of TensorFlow's.
        """
        self._path = Path(path)
        if foreign := foreign_operators(self._path):
            raise ValueError(_FOREIGN.format(", ".join(foreign)))
        resolver = OpResolverType.AUTO if xnnpack else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._interpreter = Interpreter(model_path=path, experimental_op_resolver_type=resolver)
        self._answer = _caller(self._interpreter, chosen_signature(self._path))
        keys = signature_keys(self._path)
        self._others = [_BySignature(self._interpreter, key) for key in keys] if len(keys) > 1 else []
        self.inputs = self._answer.inputs
        self.version = f"ai-edge-litert {importlib.metadata.version('ai-edge-litert')}"

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        # The interpreter's arrays are views of memory that the next run overwrites.
        return {name: np.array(output) for name, output in self._chosen(inputs)(inputs).items()}

    def _chosen(self, inputs: Mapping[str, Array]) -> "_BySignature | _ByPlace":
        """Returns the signature whose inputs have the shapes of these arrays, in a file with several signatures."""
        shapes = {name: np.shape(array) for name, array in inputs.items()}
        fitting = (each for each in self._others if {spec.name: spec.shape for spec in each.inputs} == shapes)
        return next(fitting, self._answer)

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        return self._inside(inputs, replaced)

    @cached_property
    def _inside(self) -> InspectedLiteRT:
        return InspectedLiteRT(self._path, *self._answer.places)

    def weights(self) -> Arrays:
        quantized = quantized_constants(self._path)
        numbers = {f"{NUMBERS}{name}": each for name, (each, _) in quantized.items()}
        steps = {f"{STEPS}{name}": each for name, (_, each) in quantized.items()}
        stored = ((name, each) for name, _, each in stored_tensors(self._path))
        indices = {f"{INTEGERS}{name}": each for name, each in stored if each.dtype.name in ("bool", "int32", "int64")}
        return constants(self._path) | numbers | steps | indices

    def conditions(self, inputs: Mapping[str, Array]) -> Mapping[str, bool]:
        if not self._conditions:
            return {}
        _caller(self._keeping, chosen_signature(self._path))(inputs)
        return {name: bool(self._keeping.get_tensor(number)) for name, number in self._conditions.items()}

    @cached_property
    def _conditions(self) -> Mapping[str, int]:
        return conditions(self._path)

    @cached_property
    def _keeping(self) -> Interpreter:
        """An interpreter that keeps the tensors between the operators."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it takes more memory, which is why it is another one
            return Interpreter(model_path=str(self._path), experimental_preserve_all_tensors=True)

    def float_dtypes(self) -> tuple[str, ...]:
        names = {np.dtype(detail["dtype"]).name for detail in self._interpreter.get_tensor_details()}
        return tuple(sorted(name for name in names if "float" in name))


class _BySignature:
    """Calls of an interpreter by the names of a signature."""

    def __init__(self, interpreter: Interpreter, key: str) -> None:
        self._run = interpreter.get_signature_runner(key)
        details = self._run.get_input_details()
        self.inputs = tuple(_spec(name, details[name]) for name in in_order(details))
        self.places = _places(details), _places(self._run.get_output_details())

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        outputs = self._run(**inputs)
        return {name: outputs[name] for name in in_order(outputs)}


class _ByPlace:
    """Calls of an interpreter whose file has no signature."""

    def __init__(self, interpreter: Interpreter) -> None:
        self._interpreter = interpreter
        taken, returned = interpreter.get_input_details(), interpreter.get_output_details()
        names, outputs = interface_names(*([detail["name"] for detail in each] for each in (taken, returned)))
        self._places = {name: detail["index"] for name, detail in zip(names, taken, strict=True)}
        self._outputs = {name: detail["index"] for name, detail in zip(outputs, returned, strict=True)}
        self.places = self._places, self._outputs
        self.inputs = tuple(map(_spec, names, taken))

    def __call__(self, inputs: Mapping[str, Array]) -> Arrays:
        for name, array in inputs.items():
            self._interpreter.resize_tensor_input(self._places[name], array.shape, strict=True)
        self._interpreter.allocate_tensors()
        for name, array in inputs.items():
            self._interpreter.set_tensor(self._places[name], array)
        self._interpreter.invoke()
        return {name: self._interpreter.get_tensor(index) for name, index in self._outputs.items()}


def _caller(interpreter: Interpreter, key: str | None) -> _BySignature | _ByPlace:
    return _ByPlace(interpreter) if key is None else _BySignature(interpreter, key)


def _places(details: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {name: detail["index"] for name, detail in details.items()}


def _spec(name: str, detail: Mapping[str, Array]) -> TensorInfo:
    return tensor_info(name, detail["shape_signature"], np.dtype(detail["dtype"]).name)
