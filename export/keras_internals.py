"""What Keras does not offer in public. Tried on Keras 3.15.1."""

from typing import Any


def all_layers(model: Any) -> list[Any]:
    """Returns the model and every layer in it, those within layers included."""
    return list(model._flatten_layers())


def functional_of(model: Any) -> Any:
    """Returns the Functional model that a Sequential one keeps, with the InputLayer that it hides."""
    return getattr(model, "_functional", None) or model
