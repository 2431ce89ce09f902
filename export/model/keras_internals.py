"""What Keras does not offer in public. Tried on Keras 3.15.1."""

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def all_layers(model: Any) -> list[Any]:
    """Returns the model and every layer in it, those within layers included."""
    return list(model._flatten_layers())


def functional_of(model: Any) -> Any:
    """Returns the Functional model that a Sequential one keeps, with the InputLayer that it hides."""
    return getattr(model, "_functional", None) or model


@contextlib.contextmanager
def replaced_inner_loops(loops: Mapping[Any, Callable[..., Any]]) -> Iterator[None]:
    """Gives recurrent layers another loop over their steps; each is called with the layer's own, then its arguments."""
    for layer, loop in loops.items():
        vars(layer)["inner_loop"] = functools.partial(loop, layer.inner_loop)  # setattr() would track it
    try:
        yield
    finally:
        for layer in loops:
            vars(layer).pop("inner_loop", None)


@contextlib.contextmanager
def named_functions() -> Iterator[dict[str, Callable[..., Any]]]:
    """Has Lambda layers serialise their functions as names, which a custom object scope of the result resolves.

    Keras writes the code of a lambda, which runs without the globals that it was written among, such as `ops`.
    """
    from keras.layers import Lambda

    functions: dict[str, Callable[..., Any]] = {}

    def as_name(layer: Any, function: Callable[..., Any]) -> dict[str, Any]:
        name = f"{__name__}.function_{len(functions)}"
        functions[name] = function
        return {"class_name": "function", "config": name, "module": "builtins", "registered_name": name}

    kept = Lambda._serialize_function_to_config
    Lambda._serialize_function_to_config = as_name
    try:
        yield functions
    finally:
        Lambda._serialize_function_to_config = kept


def repair_tf2onnx() -> None:
    """Lets tf2onnx 1.17 run with NumPy 2, as Keras' own export does."""
    from keras.src.export.tf2onnx_lib import patch_tf2onnx

    with warnings.catch_warnings():
        # Keras asks `hasattr(np, "object")`, which NumPy 2.4 answers with a warning about its future meaning.
        warnings.filterwarnings("ignore", message=".*np.object.*", category=FutureWarning)
        patch_tf2onnx()
