"""The call of a quantizer, and the operators that the quantizer takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Quantizer:
    """A function of another package that writes quantized files.

    Attributes:
        function: The import path of the function.
        options: The keyword arguments of a file in which everything is quantized, as JSON values.
        leave_in_float: Returns options that also leave the nodes with some names in float. None if the quantizer takes
            all layers or none.
        write: Writes a file. Its arguments are the float file, the destination, the options and the calibration cache.
            None if Keras quantizes the model, which is then exported.
        operators: Returns the operators that the quantizer takes. Keras takes layers instead.
        calibrate: Adds the ranges of the values in some batches to the calibration cache. Its arguments are the float
            file, the calibration cache and the files of the batches. None if the quantizer reads no rows.
        for_operators: Returns options for a file with some operators.
        for_processor: Returns options for the integer arithmetic of this processor. It runs the runtime.
        takes_bodies: Whether the quantizer takes nodes in the bodies of loops and branches.
    """

    function: str
    options: Options
    leave_in_float: Callable[[Options, Sequence[str]], Options] | None
    write: Callable[[str, str, Options, str], None] | None = None
    operators: Callable[[], Iterable[str]] = tuple
    calibrate: Callable[[str, str, Sequence[str]], None] | None = None
    for_operators: Callable[[Options, Sequence[str]], Options] = lambda options, operators: options
    for_processor: Callable[[Options], Options] = lambda options: options
    takes_bodies: bool = True
