"""A normalization by the mean square, or over other axes, whose own weights stay on theirs."""

from functools import partial

import numpy as np

from keras_pe.export.parity.diagnosis.edits import Edit, Edits
from keras_pe.export.parity.diagnosis.layer_call import as_array, with_attributes
from keras_pe.export.parity.diagnosis.layer_fault import LayerFault
from keras_pe.export.parity.diagnosis.sites.other_values import other_axes
from keras_pe.export.results import Array, Cause


def other_normalizations(fault: LayerFault) -> Edits:
    """Yields a layer normalization as another one would compute."""
    layer = fault.call.layer
    if not all(hasattr(layer, name) for name in ("axis", "center", "scale", "epsilon")) or hasattr(layer, "momentum"):
        return
    said = "without the mean taken off, as an RMSNormalization,"
    yield Edit(Cause.OTHER_OPERATION, said, _by_mean_square)
    for axes in other_axes(layer.get_config()["axis"]):
        said = f"normalized over the axes {axes} instead of {layer.get_config()['axis']}"
        yield Edit(Cause.OTHER_AXIS, said, partial(_over_axes, axes=axes))


def _by_mean_square(fault: LayerFault) -> Array:
    x, layer = fault.call.inputs[0].astype(np.float64), fault.call.layer
    square = np.mean(x * x, axis=tuple(np.atleast_1d(layer.axis)), keepdims=True)
    return _with_own_weights(fault, x / np.sqrt(square + layer.epsilon))


def _over_axes(fault: LayerFault, axes: list[int]) -> Array:
    return _with_own_weights(fault, with_attributes(fault, {"axis": axes, "center": False, "scale": False}))


def _with_own_weights(fault: LayerFault, plain: Array) -> Array:
    """Returns what a normalization makes of normalized values with its own weights, which stay on its own axes."""
    layer, ndim = fault.call.layer, fault.expected.ndim
    own = {axis % ndim for axis in np.atleast_1d(layer.axis)}
    shape = [size if axis in own else 1 for axis, size in enumerate(fault.expected.shape)]
    scaled = plain * as_array(layer.gamma.value).reshape(shape) if layer.scale else plain
    return scaled + as_array(layer.beta.value).reshape(shape) if layer.center else scaled
