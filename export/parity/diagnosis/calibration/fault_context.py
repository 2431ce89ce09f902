"""The context in which faults of calibration are found, and the finding about a fault."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from keras_pe.export.model.watch.layer_paths import is_within
from keras_pe.export.parity.diagnosis.calibration.rounding_costs import RoundingCost, RoundingMeasurement
from keras_pe.export.results import Cause, Finding, OtherValue


@dataclass(frozen=True)
class Context:
    """The tensors and layers that a fault is found in.

    Attributes:
        measurement: The tensors of the file.
        position_layers: The paths of the model's layers of positions.
    """

    measurement: RoundingMeasurement
    position_layers: Collection[str] = ()

    def is_position(self, layer: str) -> bool:
        """Whether a layer computes positions, or is within one that does."""
        return any(is_within(layer, each) for each in self.position_layers)


Fault = Callable[[RoundingCost, Context], Finding | None]


def describe_fault(cause: Cause, text: str, cost: RoundingCost, **numbers: float) -> Finding:
    """Returns a finding about a tensor, with its share of the change of the outputs."""
    where = f"Tensor {cost.tensor.name!r}: " if cost.tensor.name != cost.name else ""
    share = f" Rounding this tensor alone causes {cost.share:.0%} of the change of the outputs."
    values = tuple(OtherValue(name, None, value) for name, value in numbers.items())
    return Finding(cause, f"{where}{text}{share}", cost.name, parameters=values)
