"""ONNX Runtime with a fault in one of its optimizations, whatever the installed release has right or wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from keras_pe.export.runtimes.onnxruntime import OnnxRuntime
from keras_pe.export.runtimes.registry import find_runtimes
from keras_pe.export.runtimes.runtime import Array, Arrays, RuntimeSpec

RULE, RULES = "EliminateIdentity", "Level1_RuleBasedTransformer"  # the one is applied under the name of the other
FUSION = "MatMulAddFusion"
LONGEST_RIGHT = 3


class Misoptimizing(OnnxRuntime):
    """Returns one too much of everything where an optimization is not left out."""

    def __init__(
        self, path: str, fault: str, level: str = "all", disabled_optimizers: Sequence[str] = (), **options: Any
    ) -> None:
        """Opens a file.

        Args:
            path: The file.
            fault: The optimization at fault.
            level: Level of optimization; "disabled" has no fault.
            disabled_optimizers: Optimizers to leave out.
            options: The others of `OnnxRuntime`.
        """
        super().__init__(path, level, disabled_optimizers=disabled_optimizers, **options)
        mending = {fault, RULES} if fault == RULE else {fault}
        self._is_wrong = level != "disabled" and mending.isdisjoint(disabled_optimizers)

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        return {name: array + self._is_wrong for name, array in super().run(inputs).items()}


class WrongWhenLong(OnnxRuntime):
    """Returns one too much of everything for long inputs, unless inner tensors are requested."""

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        is_long = any(array.ndim > 1 and array.shape[1] > LONGEST_RIGHT for array in inputs.values())
        return {name: array + is_long for name, array in super().run(inputs).items()}


def misoptimizing(fault: str, **options: Any) -> RuntimeSpec:
    """Returns ONNX Runtime with a fault in an optimization of this name."""
    (spec,) = find_runtimes(["onnxruntime[all]"])
    factory = f"{__name__}:{Misoptimizing.__name__}"
    return replace(
        spec, name="onnxruntime[faulty]", factory=factory, options={**spec.options, **options, "fault": fault}
    )


def wrong_when_long() -> RuntimeSpec:
    """Returns a runtime that is wrong from a length on, and whose optimizations have no names."""
    (spec,) = find_runtimes(["onnxruntime[all]"])
    return replace(spec, name="other[faulty]", factory=f"{__name__}:{WrongWhenLong.__name__}")
