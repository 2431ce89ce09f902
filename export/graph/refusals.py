"""What stops an export: a model that Keras cannot trace, and random numbers and changes where a file has no state."""

from collections.abc import Sequence

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import TracingError, UnsupportedError, first_line
from keras_pe.export.graph.view import GraphView
from keras_pe.export.model.signature.signature import Signature


def refuse_state_and_randomness(
    view: GraphView,
    signature: Signature,
    outputs: Sequence[str],
    model: str,
    format: Format,
    updated: Sequence[str] = (),
) -> None:
    """Raises UnsupportedError if a call of the model draws random numbers or changes a variable.

    Args:
        view: The traced graph.
        signature: The model's.
        outputs: The names of the tensors that the graph returns, in the order of the signature's outputs.
        model: The model's name.
        format: The format, for the error.
        updated: Paths of variables that a call changes without an operator of the graph.
    """
    for path, operator in view.random_operators():
        raise UnsupportedError(
            format,
            model,
            f"{view.place(path)} draws random numbers (operator {operator!r}), which no runtime repeats. "
            f"Pass the numbers as an input instead{_or_without(view, signature, outputs)}.",
            layer=view.layer(path),
            operator=operator,
        )
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


def _or_without(view: GraphView, signature: Signature, outputs: Sequence[str]) -> str:
    """Returns the other way out, where some outputs do not depend on random numbers."""
    names = [signature.renamed.get(spec.name, spec.name) for spec in signature.outputs]
    free = [name for name, tensor in zip(names, outputs, strict=True) if not view.random_operators(tensor)]
    return f", or export a model that returns {', '.join(map(repr, free))} alone, without them" if free else ""


def untraceable(format: Format, model: str, error: Exception) -> TracingError:
    """Returns the error for a model that Keras cannot trace."""
    return TracingError(format, model, f"Keras cannot trace it: {first_line(error)}.")
