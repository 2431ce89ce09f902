"""The decisions of a model by its inputs: comparisons, bins, casts and table reads after simple arithmetic."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from keras_pe.export.model.watch.decision_sites import Path, Reached, find_sites, path_to
from keras_pe.export.model.watch.nested_arguments import FlatModel
from keras_pe.export.model.watch.recording import state_left_alone
from keras_pe.export.model.watch.symbolic_trace import traced_flat
from keras_pe.export.results import Array

KINDS = ("direct", "derived", "stepped", "weighted")
_LONG = 2**36 - 1  # the last bits of a float64, which are 0 in a value of 17 bits


@dataclass(frozen=True)
class Answer:
    """The decisions of a model for one set of inputs.

    Attributes:
        decisions: The decisions of each of `KINDS`: a row for each row of the batch, or one row.
        fits: Whether the casts and tables accept all values, for each row.
    """

    decisions: Mapping[str, Array]
    fits: Array


class SiteValues(NamedTuple):
    """A decision and the values that it compares, by row of a batch.

    Attributes:
        decided: The decisions of the site, a row for each row of the batch.
        is_short: Whether all values on the path to the site have few bits, and exact operators.
        is_zero: Whether all values on the path to the site are 0.
    """

    decided: Array
    is_short: Array
    is_zero: Array


class Decisions:
    """Computes the decisions of a model for given inputs.

    Attributes:
        sized: The names of integer inputs whose values may be the size of a tensor or the number of steps of a loop.
        casts: The integer types that floats are cast to.
    """

    def __init__(self, model: FlatModel) -> None:
        """Traces the model.

        Args:
            model: The model, on TensorFlow.

        Raises:
            Exception: Whatever the layers raise if the model cannot be traced.
        """
        self._model = model
        self._function, found = self._trace(_decisions_and_limits)
        self._sites = found.sites
        self._limits = found.limits
        self.sized = frozenset(found.sized)
        self.casts = tuple(dict.fromkeys(each.dtype for each in found.limits if each.dtype))

    @property
    def is_any(self) -> bool:
        """Whether there is a decision."""
        return bool(self._sites)

    def __call__(self, inputs: Mapping[str, Any], rows: int) -> Answer:
        """Returns the decisions.

        Args:
            inputs: An array for each input, of one batch.
            rows: The number of rows in the answer.
        """
        values = self._values(self._function, inputs)
        split = len(self._sites)
        sites = list(zip(self._sites, values, strict=False))

        def of(kind: str) -> Array:
            return _in_rows([value for site, value in sites if site.kind == kind], rows)

        return Answer({kind: of(kind) for kind in KINDS}, np.asarray(_in_rows(values[split:], rows).all(axis=1)))

    def site_values(self, inputs: Mapping[str, Any], rows: int) -> list[SiteValues]:
        """Returns each decision that compares known values, and whether these values are exact.

        Args:
            inputs: An array for each input, of one batch.
            rows: The number of rows in the answer.
        """
        function, names, paths = self._paths
        values = dict(zip(names, (_rows_or_nan(each, rows) for each in self._values(function, inputs)), strict=True))
        is_short = {name: _is_short(array) for name, array in values.items()}
        is_zero = {name: array == 0 for name, array in values.items()}

        def all_on(path: Path, is_so: Mapping[str, Array]) -> Array:
            held = [np.ones((rows, 1), bool), *(is_so[name] for name in path.floats)]
            return np.asarray(np.concatenate(held, axis=1).all(axis=1))

        decided = zip(self._sites, self._values(self._function, inputs), strict=False)
        compared = (_in_rows([value], rows) for site, value in decided if site.compared)
        return [
            SiteValues(value, all_on(path, is_short) & path.is_exact, all_on(path, is_zero))
            for value, path in zip(compared, paths, strict=True)
        ]

    @cached_property
    def _paths(self) -> tuple[Any, list[str], list[Path]]:
        """A function that returns the floats of all paths, their names, and the path of each site."""
        floats: dict[str, Any] = {}
        paths: list[Path] = []

        def choose_floats(found: Reached) -> list[Any]:
            paths[:] = [path_to(site, found) for site in found.sites if site.compared]
            floats.clear()
            floats.update((name, tensor) for path in paths for name, tensor in path.floats.items())
            return list(floats.values())

        function, _ = self._trace(choose_floats)
        return function, list(floats), paths

    def _trace(self, choose: Callable[[Reached], Sequence[Any]]) -> tuple[Any, Reached]:
        """Returns a function of the inputs that returns some tensors of the graph, and the decisions of the graph."""
        import tensorflow as tf

        found = Reached()

        def flat(*inputs: Any) -> list[Any]:
            nonlocal found
            with state_left_alone():
                self._model.outputs(inputs)
            found = find_sites(inputs[0].graph, dict(zip(self._model.names, inputs, strict=True)))
            return [tf.cast(each, tf.float64) for each in choose(found)]

        return traced_flat(self._model, flat), found

    def _values(self, function: Any, inputs: Mapping[str, Any]) -> list[Array]:
        return [np.asarray(tensor) for tensor in function(*(inputs[name] for name in self._model.names))]

    def overflowing(self, inputs: Mapping[str, Any]) -> list[str]:
        """Returns the integer types that cannot hold a value that is cast to them, for one set of inputs."""
        values = self._values(self._function, inputs)
        limits = zip(self._limits, values[len(self._sites) :], strict=True)
        return list(dict.fromkeys(limit.dtype for limit, fits in limits if limit.dtype and not fits.all()))


def _in_rows(values: Sequence[Array], rows: int) -> Array:
    """Returns decisions side by side, those that do not split into rows left out."""
    split = [np.nan_to_num(each).reshape(rows, -1) for each in values if each.size and each.size % rows == 0]
    return np.concatenate([np.zeros((rows, 0)), *split], axis=1)


def _decisions_and_limits(found: Reached) -> list[Any]:
    fits = [(each.tensor >= each.low) & (each.tensor < each.high) for each in found.limits]
    return [*(site.tensor for site in found.sites), *fits]


def _rows_or_nan(value: Array, rows: int) -> Array:
    """Returns a value in rows, and NaN if the value does not split into rows."""
    return value.reshape(rows, -1) if value.size % rows == 0 else np.full((rows, 1), np.nan)


def _is_short(values: Array) -> Array:
    """Returns whether values have at most 17 significant bits."""
    found: Array = np.isfinite(values) & (values.view(np.int64) & _LONG == 0)
    return found
