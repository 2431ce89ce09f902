"""Checks that an artifact returns outputs of its declared shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keras_pe.export.artifacts.artifact import VERSION_KEY, Format, TensorInfo
from keras_pe.export.artifacts.read_artifact import read_artifact
from keras_pe.export.model.signature.signature import confirmed_outputs
from keras_pe.export.model.sizes.dimensions import Kind
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runner import Names


@dataclass(frozen=True)
class FalseDeclaration:
    """An output whose shape differs from the artifact's declaration.

    Attributes:
        declared: The artifact's declaration, with the model's name of the output.
        shape: The returned shape.
    """

    declared: TensorInfo
    shape: tuple[int, ...]

    def __str__(self) -> str:
        declared = ", ".join(map(str, self.declared.shape))
        return f"output {self.declared.name!r} has the shape {self.shape}, and the artifact declares ({declared})"


@dataclass(frozen=True)
class Declarations:
    """The declarations of an artifact, with the model's names.

    Attributes:
        inputs: The declared inputs.
        outputs: The declared outputs; empty if the file cannot contain a false declaration.
    """

    inputs: Sequence[TensorInfo] = ()
    outputs: Sequence[TensorInfo] = ()

    @classmethod
    def from_artifact(cls, path: Path | None, names: Names) -> "Declarations":
        """Reads the declarations of an artifact. Equal dimension names in another exporter's file need not be equal
        sizes.

        Args:
            path: The artifact; None if there is no file.
            names: The artifact's names of inputs and outputs, if they differ from the model's.
        """
        try:
            artifact = None if path is None else read_artifact(path)
        except (ImportError, OSError, ValueError):  # this package cannot read the file
            return cls()
        if artifact is None:
            return cls()
        is_foreign = VERSION_KEY not in artifact.metadata
        if is_foreign and artifact.format != Format.ONNX:  # TensorFlow infers declarations, so they cannot be false
            return cls()
        inputs, outputs = (
            tuple(_rename(spec, {theirs: ours for ours, theirs in known.items()}) for spec in specs)
            for specs, known in ((artifact.inputs, names.inputs), (artifact.outputs, names.outputs))
        )
        return cls(tuple(map(_without_names, inputs)) if is_foreign else inputs, outputs)

    def with_any_batch(self) -> "Declarations":
        """Returns the declarations with a dynamic first dimension instead of a fixed batch.

        Rows that are fed in several batches come back as one array.
        """
        sizes = {spec.shape[0] for spec in self.inputs if spec.shape and isinstance(spec.shape[0], int)}
        inputs, outputs = (
            tuple(
                replace(spec, shape=(Kind.BATCH, *spec.shape[1:]))
                if spec.shape[:1] and spec.shape[0] in sizes
                else spec
                for spec in specs
            )
            for specs in (self.inputs, self.outputs)
        )
        return Declarations(inputs, outputs)

    def broken_by(
        self, given: Mapping[str, Array], returned: Mapping[str, Array], expected: Mapping[str, Array]
    ) -> list[FalseDeclaration]:
        """Returns the declarations that one run proves false.

        Args:
            given: The inputs.
            returned: The outputs of the artifact.
            expected: The outputs of the model. An output with another shape than the model's is skipped, since the
                comparison reports it.
        """
        confirmed = confirmed_outputs(self.inputs, self.outputs, [(given, returned)])
        return [
            FalseDeclaration(declared, returned[declared.name].shape)
            for declared, found in zip(self.outputs, confirmed, strict=True)
            if found != declared
            and declared.name in expected
            and returned[declared.name].shape == expected[declared.name].shape
        ]


def _without_names(spec: TensorInfo) -> TensorInfo:
    """Returns an input whose named dimensions are independent of equal names in other inputs."""
    own = (f"{spec.name}.{axis}" if isinstance(size, str) else size for axis, size in enumerate(spec.shape))
    return replace(spec, shape=tuple(own))


def _rename(spec: TensorInfo, names: Mapping[str, str]) -> TensorInfo:
    return replace(spec, name=names.get(spec.name, spec.name))
