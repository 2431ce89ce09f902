"""Whether an artifact returns outputs of the shapes that it declares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from keras_pe.export.artifacts.artifact import VERSION_KEY, Format, TensorInfo
from keras_pe.export.artifacts.reading import read_artifact
from keras_pe.export.model.signature.signature import confirmed_outputs
from keras_pe.export.model.sizes.dimensions import Kind
from keras_pe.export.results import Array
from keras_pe.export.runtimes.runner import Names


@dataclass(frozen=True)
class FalseDeclaration:
    """An output that came back in another shape than the artifact declares.

    Attributes:
        declared: What the artifact declares, under the model's name of the output.
        shape: The shape that came back.
    """

    declared: TensorInfo
    shape: tuple[int, ...]

    def __str__(self) -> str:
        declared = ", ".join(map(str, self.declared.shape))
        return f"output {self.declared.name!r} has the shape {self.shape}, and the artifact declares ({declared})"


@dataclass(frozen=True)
class Declarations:
    """What an artifact declares, under the model's names.

    Attributes:
        inputs: Its inputs.
        outputs: Its outputs; empty if its file declares nothing that could be false.
    """

    inputs: Sequence[TensorInfo] = ()
    outputs: Sequence[TensorInfo] = ()

    @classmethod
    def of_artifact(cls, path: Path | None, names: Names) -> "Declarations":
        """Reads what an artifact declares. Where another exporter has named a dimension, the name may mean nothing.

        Args:
            path: The artifact; None if there is no file.
            names: What it calls otherwise than the model.
        """
        try:
            artifact = None if path is None else read_artifact(path)
        except (ImportError, OSError, ValueError):  # no file that this package reads
            return cls()
        if artifact is None:
            return cls()
        is_foreign = VERSION_KEY not in artifact.metadata
        if is_foreign and artifact.format != Format.ONNX:  # TensorFlow infers what it declares
            return cls()
        inputs, outputs = (
            tuple(_renamed(spec, {theirs: ours for ours, theirs in known.items()}) for spec in specs)
            for specs, known in ((artifact.inputs, names.inputs), (artifact.outputs, names.outputs))
        )
        return cls(tuple(map(_without_names, inputs)) if is_foreign else inputs, outputs)

    def of_any_batch(self) -> "Declarations":
        """Returns the declarations with a free first dimension in place of the one size that a fixed batch has.

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
        """Returns the declarations that one run has shown to be false.

        Args:
            given: The inputs.
            returned: The outputs of the artifact.
            expected: The outputs of the model. An output of another shape than the model's is wrong, whatever is
                declared of it, and is left out.
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
    """Returns an input whose named dimensions have nothing to do with others of their names."""
    own = (f"{spec.name}.{axis}" if isinstance(size, str) else size for axis, size in enumerate(spec.shape))
    return replace(spec, shape=tuple(own))


def _renamed(spec: TensorInfo, names: Mapping[str, str]) -> TensorInfo:
    return replace(spec, name=names.get(spec.name, spec.name))
