"""What some inputs exercise: the sizes of dimensions, and the rows of tables."""

from collections.abc import Iterable, Mapping

import numpy as np

from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.comparison.inputs.input_roles import Role
from keras_pe.export.results import Array, Coverage, TableCoverage


def covered(inputs: Iterable[TensorInfo], roles: Mapping[str, Role], cases: Iterable[Mapping[str, Array]]) -> Coverage:
    """Returns what some cases exercise.

    Args:
        inputs: What the model takes.
        roles: The meaning of an input, by name.
        cases: The inputs of each case.
    """
    given, specs = list(cases), list(inputs)
    sizes: dict[str, set[int]] = {dim: set() for spec in specs for dim in spec.shape if isinstance(dim, str)}
    for case in given:
        for spec in specs:
            for dim, size in zip(spec.shape, case[spec.name].shape, strict=True):
                if isinstance(dim, str):
                    sizes[dim].add(size)
    tables = (_table(spec.name, roles.get(spec.name), given) for spec in specs)
    return Coverage(
        {dim: tuple(sorted(found)) for dim, found in sizes.items()}, tuple(table for table in tables if table)
    )


def _table(name: str, role: Role | None, cases: Iterable[Mapping[str, Array]]) -> TableCoverage | None:
    """Returns how much of the table is read that an input looks into; None where that is not known."""
    if role is None or role.role != "ids" or role.low is None or role.high is None:
        return None
    read = np.unique(np.concatenate([np.empty(0, np.int64), *(case[name].ravel() for case in cases)]))
    fair = (read >= role.low) & (read < role.high)
    return TableCoverage(name, int(role.high - role.low), int(fair.sum()))
