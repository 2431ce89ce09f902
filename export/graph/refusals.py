"""What stops an export to a format without state: random numbers, changing variables, and a layer traced wrongly."""

from collections.abc import Sequence

from keras_pe.export.errors import UnsupportedError
from keras_pe.export.formats import Format
from keras_pe.export.graph.view import GraphView


def refuse_state_and_randomness(view: GraphView, model: str, format: Format, updated: Sequence[str] = ()) -> None:
    """Raises UnsupportedError if a call of the model draws random numbers, changes a variable, or was traced wrongly.

    Args:
        view: The traced graph.
        model: The model's name.
        format: The format, for the error.
        updated: Paths of variables that a call changes without an operator of the graph.
    """
    for path, operator in view.random_operators():
        raise UnsupportedError(
            format,
            model,
            f"{view.place(path)} draws random numbers (operator {operator!r}), which no runtime repeats. "
            "Pass the numbers as an input instead.",
            layer=view.layer(path),
            operator=operator,
        )
    refuse_dynamic_time_distributed(view, model, format)
    changed = [(path, "Assign", f"variable {path!r} changes with every call") for path in updated]
    changed += [
        (path, operator, f"{view.place(path)} changes a variable") for path, operator in view.assigning_operators()
    ]
    for path, operator, what in changed:
        raise UnsupportedError(
            format,
            model,
            f"{what} (operator {operator!r}), and {format.label} files keep no state. Make the state an input and an "
            "output of the model, or export a SavedModel, which keeps it.",
            layer=view.layer(path),
            operator=operator,
        )


def refuse_dynamic_time_distributed(view: GraphView, model: str, format: Format) -> None:
    """Raises UnsupportedError if a TimeDistributed layer was traced with another number of steps than it will meet."""
    layer = view.dynamic_time_distributed()
    if layer:
        raise UnsupportedError(
            format,
            model,
            f"layer {layer!r} (TimeDistributed) has a dynamic time axis, for which Keras traces as many steps as the "
            "batch has rows. Give the axis a fixed length, or leave the wrapper out around a layer such as Dense that "
            "needs none.",
            layer=layer,
        )
