"""Properties of a LiteRT file for which GPUs and NPUs of phones, browsers and microcontrollers refuse it."""

from collections.abc import Iterable, Iterator, Sequence

from keras_pe.export.artifacts.litert_operators import Operator, Tensor
from keras_pe.export.graph.graph_queries import GraphView

_MOST_AXES = 4
_LOOPS = ("WHILE",)
_SHOWN = 3  # operators of each kind that a note names


def device_notes(operators: Sequence[Operator], view: GraphView) -> tuple[str, ...]:
    """Returns a note on unknown sizes, tensors of more than four axes and loops; nothing if the file has none of them.

    Args:
        operators: The operators of the file.
        view: The traced graph, which knows the layer of an operator.
    """
    large = [each for each in operators if any(len(tensor.shape) > _MOST_AXES for tensor in _tensors(each))]
    loops = [each for each in operators if each.kind in _LOOPS]
    found = ["unknown sizes (one value in `sizes` fixes a dimension)"] * has_unknown_sizes(operators)
    found += [f"more than four axes ({_list_operators(large, view)})"] * bool(large)
    found += [f"loops ({_list_operators(loops, view)})"] * bool(loops)
    if not found:
        return ()
    return (
        f"The GPU or NPU of a phone, a browser or a microcontroller may refuse the file. It has {_enumerate(found)}.",
    )


def has_unknown_sizes(operators: Iterable[Operator]) -> bool:
    """Returns whether an input or output of an operator has a size that is unknown until the file runs."""
    return any(size < 0 for each in operators for tensor in _tensors(each) for size in tensor.shape)


def _tensors(operator: Operator) -> Iterator[Tensor]:
    yield from operator.inputs
    yield from operator.outputs


def _list_operators(operators: Iterable[Operator], view: GraphView) -> str:
    """Returns the first operators of a list with their layers."""
    named = [*dict.fromkeys(f"{each.kind} of {view.place(each.path)}" for each in operators)]
    return ", ".join([*named[:_SHOWN], *["..."] * (len(named) > _SHOWN)])


def _enumerate(phrases: Sequence[str]) -> str:
    *first, last = phrases
    return f"{', '.join(first)} and {last}" if first else last
