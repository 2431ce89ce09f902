"""What the inputs of a model are looked up in: found by watching what reaches its lookup layers."""

from collections.abc import Iterable
from typing import Any

from keras_pe.export.errors import first_line
from keras_pe.export.model.watch.known_values import Vocabulary
from keras_pe.export.model.watch.nesting import FlatModel
from keras_pe.export.model.watch.recording import recorded_arguments, state_left_alone
from keras_pe.export.model.watch.traceable import traced_flat

_MOST_ENTRIES = 1000  # of a layer


def find_vocabularies(model: FlatModel) -> tuple[list[Vocabulary | None], list[str]]:
    """Returns the vocabulary of each input, None where there is none, and a sentence on what could not be found out.

    A text that reaches no lookup layer on the way that is followed may be any word that the model knows.
    """
    import keras

    kinds = (keras.layers.StringLookup, keras.layers.IntegerLookup, keras.layers.TextVectorization)
    layers = [layer for layer in model.layers if isinstance(layer, kinds)]
    if not layers or keras.backend.backend() != "tensorflow":
        return [None] * len(model.dtypes), []
    remarks: list[str] = []
    try:
        reached = layers_reached(model, kinds)
    except Exception as error:  # a layer may raise anything where a size is not known
        reached = {}
        remarks = [f"Which input is looked up in which vocabulary is not known: {first_line(error)}."]
    anything = _common(layers, is_closed=False)
    vocabularies = [
        _common(own, is_closed=any(map(_refuses_others, own)))
        if (own := reached.get(i))
        else anything
        if dtype == "string"
        else None
        for i, dtype in enumerate(model.dtypes)
    ]
    return vocabularies, remarks


def layers_reached(model: FlatModel, kinds: tuple[type, ...]) -> dict[int, list[Any]]:
    """Returns the lookup layers that each input reaches, by its number.

    Raises:
        Exception: Whatever the layers raise if the model cannot be traced.
    """

    found: dict[int, list[Any]] = {}

    def flat(*inputs: Any) -> list[Any]:
        found.clear()
        with state_left_alone(), recorded_arguments(model.layers[0]) as calls:
            results = model.outputs(inputs)
        numbers = {tensor.op.name: i for i, tensor in enumerate(inputs)}
        for layer, arguments in calls:
            number = numbers.get(_source(arguments[0])) if isinstance(layer, kinds) and arguments else None
            if number is not None:
                found.setdefault(number, []).append(layer)
        return results

    traced_flat(model, flat)
    return found


def _source(tensor: Any) -> str | None:
    """Returns the name of the operator whose values a tensor has, in whichever shape; None for a ragged one."""
    operator = getattr(tensor, "op", None)
    while operator is not None and operator.inputs and operator.inputs[0].dtype == tensor.dtype:
        operator = operator.inputs[0].op
    return getattr(operator, "name", None)


def _common(layers: Iterable[Any], *, is_closed: bool) -> Vocabulary:
    """Returns the entries that layers have: of closed vocabularies those that all have, else those that any has."""
    entries = [
        dict.fromkeys(
            str(entry) if isinstance(entry, str) else int(entry)
            for entry in layer.get_vocabulary(include_special_tokens=False)[:_MOST_ENTRIES]
        )
        for layer in layers
        if not is_closed or _refuses_others(layer)
    ]
    first, *others = entries
    if is_closed:
        shared = tuple(entry for entry in first if all(entry in other for other in others))
        return Vocabulary(shared, is_closed=bool(shared))
    return Vocabulary(tuple({entry: None for each in entries for entry in each}))


def _refuses_others(layer: Any) -> bool:
    return getattr(layer, "num_oov_indices", 1) == 0
