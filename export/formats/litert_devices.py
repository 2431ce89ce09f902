"""Properties of a LiteRT file for which GPUs and NPUs of phones, browsers and microcontrollers refuse it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.litert_operators import Operator, Tensor
from keras_pe.export.artifacts.rewrite import Rewrite
from keras_pe.export.artifacts.target_layers import TargetLayer
from keras_pe.export.errors import UnsupportedError, join_sentences
from keras_pe.export.formats.litert_targets import INTEGERS, KERNELS, MOST_AXES, RULES, Target
from keras_pe.export.graph.graph_queries import GraphView
from keras_pe.export.model.watch.code_places import describe_line

_LOOPS = ("WHILE",)
_SHOWN = 3  # operators of each kind that a note names


def device_notes(operators: Sequence[Operator], view: GraphView) -> tuple[str, ...]:
    """Returns a note on unknown sizes, tensors of more than four axes and loops; nothing if the file has none of them.

    Args:
        operators: The operators of the file.
        view: The traced graph, which knows the layer of an operator.
    """
    large = [each for each in operators if any(len(tensor.shape) > MOST_AXES for tensor in _tensors(each))]
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


@dataclass(frozen=True)
class Refusal:
    """An operator that a target does not take.

    Attributes:
        operator: The operator.
        reason: The rule in one sentence.
        source: The address of the source of the rule.
    """

    operator: Operator
    reason: str
    source: str


def find_refusals(operators: Iterable[Operator], target: Target) -> Iterator[Refusal]:
    """Yields the operators outside a target, each with the first rule that it breaks."""
    for operator in operators:
        broken = [each for each in target.lists if operator.kind not in each.operators]
        rules = [name for name, breaks in _BREAKS.items() if name in target.sources and breaks(operator)]
        if broken:
            names = " or ".join(each.name for each in broken)
            yield Refusal(operator, f"{operator.kind} is not in the list of {names}.", broken[0].source)
        elif rules:
            yield Refusal(operator, RULES[rules[0]], target.sources[rules[0]])


def target_layers(operators: Iterable[Operator], target: Target, view: GraphView) -> tuple[TargetLayer, ...]:
    """Returns the operators of each layer, with the rules that they break."""
    counts: dict[str, Counter[str]] = {}
    reasons: dict[str, dict[str, str]] = {}
    for operator in operators:
        counts.setdefault(view.layer_path(operator.path), Counter())[operator.kind] += 1
    for refusal in find_refusals(operators, target):
        kinds = reasons.setdefault(view.layer_path(refusal.operator.path), {})
        found = view.location(refusal.operator.path)
        line = f" {describe_line(found['file'], found['line'])}" if found["file"] else ""
        kinds.setdefault(refusal.operator.kind, f"{refusal.reason}{line}")
    return tuple(TargetLayer(layer, dict(found), reasons.get(layer, {})) for layer, found in counts.items())


def rewritten_operators(before: Iterable[Operator], after: Iterable[Operator], view: GraphView) -> tuple[Rewrite, ...]:
    """Returns the operators of a user's code that a file has before the rewrites for a target, and lacks after them."""
    kept = {(each.kind, each.path) for each in after}
    changed = [each for each in before if (each.kind, each.path) not in kept]
    found = [(each, view.location(each.path)) for each in changed]
    return tuple(
        Rewrite(view.layer_path(each.path), each.kind, "", place["file"], place["line"])
        for each, place in found
        if place["file"]
    )


def refuse_operators(operators: Sequence[Operator], target: Target, view: GraphView, model: str) -> None:
    """Raises UnsupportedError if a target does not take an operator."""
    refusals = list(find_refusals(operators, target))
    if not refusals:
        return
    sentences = [
        f"operator {each.operator.kind!r} of {view.place(each.operator.path)} {target.outside}: {each.reason} "
        f"See {each.source}."
        for each in refusals
    ]
    distinct = [*dict.fromkeys(sentences)]
    more = [f"{len(distinct) - _SHOWN} more operators break a rule."] if len(distinct) > _SHOWN else []
    first = refusals[0].operator
    raise UnsupportedError(
        Format.LITERT,
        model,
        join_sentences([*distinct[:_SHOWN], *more, "Export without `target` for the CPU."]),
        operator=first.kind,
        **view.location(first.path),
        layers=target_layers(operators, target, view),
    )


def _has_wide_type(operator: Operator) -> bool:
    types = {tensor.dtype for tensor in _tensors(operator) if not tensor.is_stored}
    return bool(types - {"float32", "int32", "bool"}) or ("int32" in types and operator.kind not in INTEGERS)


def _has_indices_of_axes(operator: Operator) -> bool:
    return operator.kind == "GATHER" and len(operator.inputs[1].shape) != 1


def _drops_axes(operator: Operator) -> bool:
    masks = ("ellipsisMask", "newAxisMask", "shrinkAxisMask")
    return operator.kind == "STRIDED_SLICE" and any(operator.options.get(name) for name in masks)


def _has_wide_choices(operator: Operator) -> bool:
    if operator.kind not in ("SELECT", "SELECT_V2"):
        return False
    shapes = (tensor.shape for tensor in operator.inputs[1:])
    return any(shape not in ((), (1,), operator.outputs[0].shape) for shape in shapes)


def _lacks_kernel(operator: Operator) -> bool:
    """Returns whether TFLite Micro does not compute the type of the operand whose values an operator returns."""
    data = operator.outputs if operator.kind == "CAST" else operator.inputs[_PLACES.get(operator.kind, 0) :]
    is_moved = operator.kind in ("CALL_ONCE", "IF", "READ_VARIABLE", "WHILE")
    return not is_moved and any(operator.kind not in KERNELS.get(each.dtype, (operator.kind,)) for each in data[:1])


_PLACES = {"EMBEDDING_LOOKUP": 1, "SELECT_V2": 1, "SPLIT": 1, "TRANSPOSE_CONV": 2}
"""The place of that operand, if it is not the first."""
_BREAKS: Mapping[str, Callable[[Operator], bool]] = {
    "sizes": lambda operator: has_unknown_sizes([operator]),
    "axes": lambda operator: any(len(tensor.shape) > MOST_AXES for tensor in _tensors(operator)),
    "dtypes": _has_wide_type,
    "indices": _has_indices_of_axes,
    "slices": _drops_axes,
    "choices": _has_wide_choices,
    "kernels": _lacks_kernel,
}
"""Functions that return whether an operator breaks a rule, by the name of the rule."""
