"""Names the operators of a mask after the layer that computes the mask, in a traced graph."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from keras_pe.export.model.watch.keras_internals import functional_of
from keras_pe.export.model.watch.temporary_patches import replaced_functions


def masks_in_scopes(layers: Iterable[Any]) -> contextlib.AbstractContextManager[None]:
    """Computes the mask of a layer in the scope of that layer, in this thread. Keras uses the scope around the layer.

    Args:
        layers: Layers and models. A Functional model contains the operations that compute the masks of its layers.
    """
    import keras

    owners = dict[Any, Any]()
    for model in map(functional_of, layers):
        for layer in getattr(model, "operations", None) or ():
            for tensor in [each for node in layer._inbound_nodes for each in _own_masks(node)]:
                _add_owner(owners, layer, tensor)

    def set_mask(usual: Callable[..., Any], layer: Any, *args: Any) -> None:
        with layer._open_name_scope():
            usual(layer, *args)

    def call(usual: Callable[..., Any], operation: Any, *args: Any, **kwargs: Any) -> Any:
        owner = owners.get(operation)
        with contextlib.nullcontext() if owner is None else owner._open_name_scope():
            return usual(operation, *args, **kwargs)

    return replaced_functions([(keras.Layer, "_set_mask_metadata", set_mask), (keras.Operation, "__call__", call)])


def _own_masks(node: Any) -> list[Any]:
    """Returns the masks that a call of a layer computes. A mask that the layer passes on is not its own."""
    masks = [getattr(tensor, "_keras_mask", None) for tensor in node.output_tensors]
    passed = {id(each) for tensor in node.input_tensors for each in (tensor, getattr(tensor, "_keras_mask", None))}
    return [mask for mask in masks if mask is not None and id(mask) not in passed]


def _add_owner(owners: dict[Any, Any], layer: Any, tensor: Any) -> None:
    """Records a layer as the owner of the operations that compute a mask, back to the results of layers."""
    import keras

    operation, number, _ = tensor._keras_history
    if not isinstance(operation, keras.Layer) and operation not in owners:
        owners[operation] = layer
        for each in operation._inbound_nodes[number].input_tensors:
            _add_owner(owners, layer, each)
