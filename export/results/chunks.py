"""The division of a sequence into calls that pass on a state."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Chunks:
    """The calls of one sequence, each with the state that the last call returned.

    Attributes:
        sizes: The length of each chunk.
        axes: The axis of each input that is cut, by name. Without any, each call takes the whole inputs.
        carried: The output with the next value of each state, by the state's input.
        growing: The axis of each input of which a call takes the part up to its own end, such as the mask of a cache.
    """

    sizes: tuple[int, ...]
    axes: Mapping[str, int] = field(default_factory=dict)
    carried: Mapping[str, str] = field(default_factory=dict)
    growing: Mapping[str, int] = field(default_factory=dict)
