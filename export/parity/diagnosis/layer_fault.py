"""One call of a layer that an artifact gets wrong."""

from dataclasses import dataclass

from keras_pe.export.model.watch.recording import LayerCall
from keras_pe.export.results import Array


@dataclass(frozen=True)
class LayerFault:
    """One call of a layer whose output the artifact gets wrong although what it is given is right.

    Attributes:
        call: What Keras gave the layer, and what it returned.
        index: Which of its outputs is wrong.
        tensor: The artifact's tensor that holds it; None where none was found.
        actual: What that tensor held, in the shape of Keras' output; None where it has no such values.
        tolerance: What is allowed.
        folded: The normalization that an exporter has folded into the layer's weights: the tensor holds its output, and
            the layer's own is nowhere.
        held: What the tensor that is named for the output holds, where that is of another size.
        loose: What the layer was given that the code of the layer around it has computed.
        before: What was there before of a shape that it is given, with the layer or input that it came from.
        reordered: What it was given, by its number, as tensors of the artifact hold it in another order.
        unsure: Layers that it was given from, whose outputs the exporter has named no tensor for: one that holds the
            same may stand beside the way. They may be at fault in its place.
        through: The layer in whose output it shows: for one of these, or where no tensor can be its own.
        sound_weights: The paths of the weights that the artifact is known to hold as the model does.
    """

    call: LayerCall
    index: int
    tensor: str | None
    actual: Array | None
    tolerance: float
    folded: LayerCall | None = None
    held: Array | None = None
    loose: tuple[Array, ...] = ()
    before: tuple[tuple[str, Array], ...] = ()
    reordered: tuple[tuple[int, Array], ...] = ()
    unsure: "tuple[LayerFault, ...]" = ()
    through: "LayerFault | None" = None
    sound_weights: frozenset[str] = frozenset()

    @property
    def expected(self) -> Array:
        """What Keras returned."""
        return self.call.outputs[self.index]

    @property
    def layer(self) -> str:
        """The layer's path, without the number of the call."""
        return self.call.path.partition("#")[0]
