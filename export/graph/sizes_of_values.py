"""Sizes that follow from values: as many as a condition selects, or as differ from each other.

A model that was called at a few sizes may have returned as many each time. The graph tells that this is no constant.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from keras_pe.export.model.signature.signature import Signature

_SIZED_BY_VALUES = re.compile("Where|Unique.*|NonMaxSuppression.*|ListDiff|DynamicPartition|StringSplit.*")


def with_sizes_of_values(signature: Signature, outputs: Mapping[str, Any]) -> Signature:
    """Returns the signature, with a dimension in place of each constant of an output that may follow from values.

    Args:
        signature: The model's, whose sizes were measured.
        outputs: The tensors of the traced graph, by name.
    """
    specs = []
    for spec in signature.outputs:
        tensor = outputs[spec.name]
        rank = len(spec.shape)
        known = [None] * rank if tensor.shape.rank is None else tensor.shape.as_list()
        doubtful = {i for i in range(rank) if known[i] is None and isinstance(spec.shape[i], int)}
        if doubtful and _is_sized_by_values(tensor):
            shape = tuple(f"{spec.name}_axis_{i}" if i in doubtful else dim for i, dim in enumerate(spec.shape))
            spec = dataclasses.replace(spec, shape=shape)
        specs.append(spec)
    return dataclasses.replace(signature, outputs=tuple(specs))


def _is_sized_by_values(tensor: Any) -> bool:
    seen, waiting = set(), [tensor.op]
    while waiting:
        operator = waiting.pop()
        if _SIZED_BY_VALUES.fullmatch(operator.type):
            return True
        if operator.name not in seen:
            seen.add(operator.name)
            waiting += [each.op for each in operator.inputs]
    return False
