"""The sizes of outputs that an artifact declares, held against those that came back when it ran."""

from collections.abc import Iterable
from dataclasses import replace

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.runtimes.runtime import Arrays


def confirmed_outputs(signature: Signature, runs: Iterable[tuple[Arrays, Arrays]]) -> tuple[TensorInfo, ...]:
    """Returns the outputs of a signature, with a dimension of its own where a size came back that is not the declared.

    Args:
        signature: What is declared.
        runs: The inputs of each run, and the outputs that came back.
    """
    outputs = signature.outputs
    for given, returned in runs:
        sizes = {
            dim: size
            for spec in signature.inputs
            for dim, size in zip(spec.shape, given[spec.name].shape, strict=True)
            if isinstance(dim, str)
        }
        outputs = tuple(
            replace(spec, shape=tuple(_confirmed(spec, axis, size, sizes) for axis, size in enumerate(shape)))
            if spec.name in returned and len(shape := returned[spec.name].shape) == len(spec.shape)
            else spec
            for spec in outputs
        )
    return outputs


def _confirmed(spec: TensorInfo, axis: int, size: int, sizes: dict[str, int]) -> int | str:
    declared = spec.shape[axis]
    known = sizes.get(declared) if isinstance(declared, str) else declared
    return declared if known is None or known == size else f"{spec.name}_axis_{axis}"
