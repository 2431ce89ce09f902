"""One call of a layer that an artifact gets wrong, in one case."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from keras_pe.export.comparison.law import STRICT, is_float
from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.parity.diagnosis.recorded_outputs import RecordedOutput
from keras_pe.export.parity.diagnosis.tensor_search import TensorMatch, Tensors
from keras_pe.export.results import Array

_MOST_BEFORE = 8
_SLACK = 4.0  # for values of which no noise is known


@dataclass(frozen=True)
class LayerFault:
    """One call of a layer whose output the artifact gets wrong although what it is given is right.

    Attributes:
        call: What Keras gave the layer, and what it returned.
        index: Which of its outputs is wrong.
        tolerance: What is allowed.
        location: The artifact's tensor that holds it, and how; None where none was found.
        actual: What that tensor held, in the shape of Keras' output; None where it has no such values.
        folded: The same of the normalization that an exporter has folded into the layer's weights: the tensor holds its
            output, and the layer's own is nowhere.
        held_in: The tensor that is named for the output, where that is of another size, and
        held: what it holds.
        loose: What the layer was given that the code of the layer around it has computed.
        before: What was there before of a shape that it is given, with the layer or input that it came from.
        reordered: What it was given, by its number, as tensors of the artifact hold it in another order.
        unsure: Layers that it was given from, whose outputs the exporter has named no tensor for: one that holds the
            same may stand beside the way. They may be at fault in its place.
        through: The layer in whose output it shows: for one of these, or where no tensor can be its own.
        absent: The layers before it of which the artifact has nothing: what explains this one may explain that.
        sound_weights: The paths of the weights that the artifact is known to hold as the model does.
        sizes: The dynamic dimensions of the case, by name.
        calls: The paths of all calls of the layer, in their order.
    """

    call: LayerCall
    index: int
    tolerance: float
    location: TensorMatch | None = None
    actual: Array | None = None
    folded: "LayerFault | None" = None
    held_in: str | None = None
    held: Array | None = None
    loose: tuple[Array, ...] = ()
    before: tuple[tuple[str, Array], ...] = ()
    reordered: tuple[tuple[int, Array], ...] = ()
    unsure: "tuple[LayerFault, ...]" = ()
    through: "LayerFault | None" = None
    absent: tuple[str, ...] = ()
    sound_weights: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    calls: tuple[str, ...] = ()

    @property
    def expected(self) -> Array:
        """What Keras returned."""
        return self.call.outputs[self.index]

    @property
    def layer(self) -> str:
        """The layer's path, without the number of the call."""
        return self.call.path.partition("#")[0]

    @property
    def layers(self) -> set[str]:
        """The path of the layer, and that of the normalization in its weights."""
        return {self.layer} | (self.folded.layers if self.folded is not None else set())

    @property
    def tensor(self) -> str | None:
        """The name of the artifact's tensor."""
        return None if self.location is None else self.location.tensor


def with_surroundings(
    fault: LayerFault,
    output: RecordedOutput,
    outputs: Sequence[RecordedOutput],
    inputs: Mapping[str, Array],
    tensors: Tensors,
) -> LayerFault:
    """Returns a fault with what the layer may have been given in the place of its inputs."""
    given = [(number, array) for number, array in enumerate(output.call.inputs) if _is_number(array)]
    shapes = {array.shape for _, array in given}
    nearest_first = [(each.call.path, each.array) for each in reversed(outputs[: output.number])]
    known = [*nearest_first, *(pair for pair in inputs.items() if _is_number(pair[1]))]
    before = (pair for pair in known if {pair[1].shape, (*pair[1].shape[:1], *pair[1].shape[2:])} & shapes)
    reordered = (
        (number, other)
        for number, array in given
        if is_float(array.dtype) and array.size > 1
        for other in tensors.reordered(array, _SLACK * STRICT.flat_tolerance(array))
    )
    return replace(
        fault,
        loose=output.loose_inputs,
        before=tuple(before)[:_MOST_BEFORE],
        reordered=tuple(reordered)[:_MOST_BEFORE],
    )


def _is_number(array: Array) -> bool:
    return is_float(array.dtype) or array.dtype.kind in "iu"
