"""The layer at fault made again with one thing about it changed, until it gives the artifact's numbers."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from keras_pe.export.model.watch.state import state_left_alone
from keras_pe.export.parity.diagnosis.again import Variant, shown
from keras_pe.export.parity.diagnosis.changed_inputs import other_inputs, other_masks, other_paddings
from keras_pe.export.parity.diagnosis.changed_layers import changed_layers
from keras_pe.export.parity.diagnosis.directions import other_directions
from keras_pe.export.parity.diagnosis.operations import instead_of_operation
from keras_pe.export.parity.diagnosis.probe import EXPLAINS, LayerFault, distance
from keras_pe.export.parity.diagnosis.resized import other_places
from keras_pe.export.results import Finding

_WITHOUT_THE_LAYER = {"layer left out", "flipped sign", "other operation", "other order"}


@dataclass(frozen=True)
class Explanation:
    """A change that gives the artifact's numbers, and whether to within their noise or only nearly so."""

    finding: Finding
    is_exact: bool


def changed_in_itself(fault: LayerFault) -> Iterator[Variant]:
    """Yields the layer left out, with other attributes, masks or weights, and what the code around it computes."""
    yield from instead_of_operation(fault)
    yield from other_masks(fault)
    yield from other_directions(fault)
    yield from changed_layers(fault)
    yield from other_paddings(fault)
    yield from other_places(fault)
    yield from other_inputs(fault)


def explain_by_layer(
    fault: LayerFault,
    note: Callable[[str, Exception], None],
    variants: Callable[[LayerFault], Iterator[Variant]] = changed_in_itself,
) -> Explanation | None:
    """Returns the change of a layer, of its masks or of what it is given that gives the artifact's numbers.

    Args:
        fault: The layer and its output.
        note: Called with what could not be tried and why, where the layer takes no change at all.
        variants: What is tried, in this order.
    """
    seen = fault.through or fault
    actual = seen.held if seen.actual is None else seen.actual
    if actual is None:
        return None
    error = distance(actual, seen.expected)
    if not error > 0 or (seen.actual is not None and error == np.inf):
        return None
    allowed = seen.tolerance if error == np.inf else max(EXPLAINS * error, seen.tolerance)
    best: tuple[float, str, str] | None = None
    ran, refused = False, None
    for cause, text, compute in variants(fault):
        try:
            with state_left_alone(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an attribute that is only tried
                result = shown(fault, compute())
        except Exception as raised:  # whatever a layer raises: this change is none that it takes
            refused = refused or raised
            continue
        ran = ran or cause not in _WITHOUT_THE_LAYER
        if result is None:
            continue
        forms = [result] if seen.actual is not None or result.ndim < 3 else [result, np.moveaxis(result, -1, 1)]
        left = min(distance(actual, each) for each in forms)
        if left <= allowed and distance(result, seen.expected) > seen.tolerance:
            if best is None or left < best[0]:
                best = (left, cause, text)
            if left <= seen.tolerance:
                break
    if best is None:
        if refused is not None and not ran:
            note(f"changes of the layer {fault.layer!r}", refused)
        return None
    left, cause, text = best
    text += f" That shows in the output of {seen.layer!r}." if fault.through else ""
    was = f"{error:.1e}" if error < np.inf else f"another shape ({actual.shape}, not {fault.expected.shape})"
    finding = Finding(cause, f"{text} The difference falls from {was} to {left:.1e}.", fault.layer)
    return Explanation(finding, left <= seen.tolerance)
