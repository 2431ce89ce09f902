"""The records of a diagnosis: location and cause of a failure."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

_OTHER, _QUANTIZED = "other {}", "quantized ({})"
_OPEN = re.compile(r"other (attribute )?\w+( and \w+)*|quantized \(\w+\)")
# Words that follow "other" in a phrase that does not name an attribute.
_NO_ATTRIBUTES = frozenset({"bucket", "convention", "dtype", "input", "operation", "order", "places", "shape"})


class Cause(StrEnum):
    """The cause of a difference of an artifact, as a short phrase.

    A cause is equal to its phrase. Two kinds have more causes than members: `Cause.attribute` returns the cause of a
    layer's attribute with another value, and `Cause.quantized` returns the cause of a weight in integers of a type.
    """

    # How it ended, and what it returned at all.
    CRASH = "crash"
    HANG = "hang"
    NOT_LOADED = "not loaded"
    INVALID_ANSWER = "invalid answer"
    REFUSED_CASE = "refused case"
    MISSING_OUTPUT = "missing output"
    EXTRA_OUTPUT = "extra output"
    RENAMED_OUTPUT = "renamed output"
    SWAPPED_OUTPUTS = "swapped outputs"
    INPUT_RETURNED = "input returned"
    OTHER_DTYPE = "other dtype"
    OTHER_SHAPE = "other shape"
    FALSE_DECLARATION = "false declaration"
    # Inputs and outputs that differ from the model's.
    MISSING_INPUT = "missing input"
    EXTRA_INPUT = "extra input"
    RENAMED_INPUT = "renamed input"
    OTHER_INPUT_TYPE = "other input type"
    OTHER_IMAGE_LAYOUT = "other image layout"
    DECIDED_OUTPUT = "decided output"
    # Behavior in a second run.
    NON_DETERMINISM = "non-determinism"
    FROZEN_STATE = "frozen state"
    STATE_NOT_RESET = "state not reset"
    STATE_NOT_CARRIED = "state not carried"
    STATE_OF_ANOTHER_ROW = "state of another row"
    SHIFTED_STATE = "shifted state"
    EXCHANGED_STATES = "exchanged states"
    WRONG_INITIAL_STATE = "wrong initial state"
    FROZEN_LENGTH = "frozen length"
    LENGTH_LIMIT = "length limit"
    CLAMPED_TABLE = "clamped table"
    DEPENDENCE_ON_BATCH = "dependence on the batch"
    CAST_OUT_OF_RANGE = "cast out of range"
    CAST_INPUT = "cast input"
    # Faults outside the artifact.
    GRAPH_OPTIMIZATION = "graph optimization"
    COMPUTED_IN_16_BITS = "computed in 16 bits"
    ZERO_VECTOR = "zero vector from a delegate"
    WRONG_OPERATOR = "wrong operator of a delegate"
    KERAS_ITSELF = "Keras differs from itself"
    OTHER_RELEASE = "another release"
    SERVED_FILE = "the file that is served"
    # Changes of an array.
    NOT_A_NUMBER = "NaN or infinity"
    MISSING_VALUES = "missing values"
    CHANGED_VALUES = "changed values"
    SCALED_VALUES = "scaled values"
    OFFSET_VALUES = "offset values"
    CLIPPED_VALUES = "clipped values"
    FLIPPED_SIGN = "flipped sign"
    ROUNDED_VALUES = "rounded values"
    QUANTIZED_INT8 = "quantized (int8)"
    QUANTIZED_INT4 = "quantized (int4)"
    HALF_PRECISION = "half precision inside"
    TRANSPOSED_AXES = "transposed axes"
    REVERSED_VALUES = "reversed values"
    SHIFTED_ROWS = "shifted rows"
    REORDERED_VALUES = "reordered values"
    ANOTHER_WEIGHT = "another weight"
    ADDED_TWICE = "added twice"
    # Ranges and scales of a quantizer.
    CLIPPED_RANGE = "clipped range"
    DEAD_RANGE = "dead range"
    OUTLIER_CHANNEL = "outlier channel"
    SHARED_SCALE = "shared scale"
    TINY_SCALE = "tiny scale"
    UNSIGNED_RANGE = "unsigned range"
    CHANNELS_OF_ONE_SCALE = "channels of one scale"
    COARSE_POSITIONS = "coarse positions"
    COARSE_BIAS = "coarse bias"
    COARSE_SOFTMAX = "coarse softmax"
    COARSE_NORMALIZATION = "coarse normalization"
    OTHER_CALIBRATION = "other calibration rows"
    # Changes of a layer.
    START_INDEX_OFF = "start index off"
    WRONG_LAYOUT = "wrong layout"
    OTHER_CONVENTION = "other convention"
    MISSING_SCALING = "missing scaling"
    ROUNDED_RATES = "rounded rates"
    OTHER_BUCKET = "other bucket"
    OTHER_ACTIVATION = "other activation"
    USERS_ATTRIBUTE = "user's attribute"
    OTHER_EPSILON = "other epsilon"
    OTHER_AXIS = "other axis"
    OTHER_PADDING = "other padding"
    OTHER_PLACES = "other places"
    OTHER_DIRECTION = "other direction"
    OTHER_OPERATION = "other operation"
    OTHER_ORDER = "other order"
    TRAINING_MODE = "training mode"
    LAYER_LEFT_OUT = "layer left out"
    OPERATION_LEFT_OUT = "operation left out"
    OPERATION_ADDED = "operation added"
    # Changes of a layer's inputs.
    DROPPED_MASK = "dropped mask"
    INVERTED_MASK = "inverted mask"
    SHIFTED_MASK = "shifted mask"
    WEAK_MASK = "weak mask"
    DROPPED_CAUSAL_MASK = "dropped causal mask"
    ADDED_CAUSAL_MASK = "added causal mask"
    DROPPED_INPUT = "dropped input"
    OTHER_INPUT = "other input"
    EXCHANGED_INPUTS = "exchanged inputs"
    REPEATED_ROW = "repeated row"
    SCALED_INPUT = "scaled input"
    REVERSED_INPUT = "reversed input"
    CLIPPED_INPUT = "clipped input"
    SHIFTED_INPUT = "shifted input"
    REORDERED_INPUT = "reordered input"
    UNKNOWN = "unknown"

    @classmethod
    def attribute(cls, *names: str) -> Self:
        """Returns the cause of another value of a layer's attribute, or of several attributes."""
        kind = "attribute " if len(names) == 1 and names[0] in _NO_ATTRIBUTES else ""
        return cls(_OTHER.format(kind + " and ".join(names)))

    @classmethod
    def quantized(cls, dtype: str) -> Self:
        """Returns the cause of a weight that is stored in integers of a type."""
        return cls(_QUANTIZED.format(dtype))

    @classmethod
    def pattern(cls) -> str:
        """Returns the regular expression of the phrases that have no end."""
        return f"^({_OPEN.pattern})$"

    @property
    def is_quantized(self) -> bool:
        """Whether values are stored in integers."""
        return self.startswith(_QUANTIZED.partition("{")[0])

    @property
    def is_rounding(self) -> bool:
        """Whether values are only rounded: to a shorter float, or to integers."""
        return self is Cause.ROUNDED_VALUES or self.is_quantized

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str) or _OPEN.fullmatch(value) is None:
            return None
        return cls._value2member_map_.setdefault(value, str.__new__(cls, value).with_name())  # type: ignore[return-value]

    def with_name(self) -> Self:
        """Makes a member of a phrase that was none: the machinery of Enum reads both of these."""
        self._name_ = self._value_ = str.__str__(self)
        return self


@dataclass(frozen=True)
class OtherValue:
    """A parameter of a layer that has another value in the artifact.

    Attributes:
        name: The parameter, such as "rotary_dim"; "scaling.factor" for the entry `factor` of the parameter `scaling`.
        model: The value in the model.
        artifact: The value that gives the artifact's numbers.
    """

    name: str
    model: Any | None
    artifact: Any | None


@dataclass(frozen=True)
class Finding:
    """A cause, and what speaks for it.

    Attributes:
        cause: A short fixed phrase, such as "wrong layout", or "unknown".
        evidence: A sentence or two, with the numbers.
        layer: The path of the Keras layer where the fault is, where that is known.
        output: The output that shows it, where it is one.
        absent: The layers of which the artifact has nothing, as follows from the cause.
        parameters: The numbers that the cause was found with. These are parameters of the layer with other values in
            the artifact, or the numbers of a change, such as its factor or axis.
        file: The file of the user's code where the fault is; None if the fault is not in an operation of such code.
        line: The line in that file. None with a file: the fault is between two operations that the evidence names.
        operation: The expression on that line, such as "ops.square(size)".
    """

    cause: Cause
    evidence: str
    layer: str | None = None
    output: str | None = None
    absent: tuple[str, ...] = ()
    parameters: tuple[OtherValue, ...] = ()
    file: str | None = None
    line: int | None = None
    operation: str | None = None


@dataclass(frozen=True)
class LayerResult:
    """One Keras layer's output in the artifact, in the order in which the model computes.

    Attributes:
        layer: The layer's path, with the number of the call behind it where there are several.
        tensor: The artifact's tensor that holds the output; None where none does.
        max_abs_diff: The distance between the two in the artifact as it is; infinity where there is no such tensor.
        tolerance: The distance that is allowed.
        differs: Whether it is larger.
        originates_here: Whether the fault is this layer's own: with the outputs of the layers at fault before it
            replaced by Keras' own it still differs. None where this could not be tried.
    """

    layer: str
    tensor: str | None
    max_abs_diff: float
    tolerance: float
    differs: bool
    originates_here: bool | None = None


@dataclass(frozen=True)
class Proof:
    """Result of the artifact with the outputs of the layers at fault replaced by Keras' own.

    Attributes:
        layers: The layers whose outputs were replaced.
        max_abs_diff: Difference from Keras in the output that is furthest out of tolerance.
        tolerance: Tolerance of that output.
        holds: Whether all outputs are within tolerance: the layers explain the whole difference.
    """

    layers: tuple[str, ...]
    max_abs_diff: float
    tolerance: float
    holds: bool
