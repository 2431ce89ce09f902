"""Where and why an artifact that is not published differs, as the parity check would say it.

The check knows no exporter, and no exporter imports the check: as runtimes are, it is found by its name when it is
asked.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.processes.serve import find
from keras_pe.export.results import Array, Cause
from keras_pe.export.runtimes.runner import Runner

_SEARCH = "keras_pe.export.parity.unpublished:explain"


@dataclass(frozen=True)
class Diagnosis:
    """What the search for a cause has found.

    Attributes:
        text: One sentence or more.
        cause: The first of the causes.
        layer: The path of the layer where it is, None where that is not known.
    """

    text: str
    cause: Cause
    layer: str | None


class Search(Protocol):
    """Returns why an artifact differs; None where the law of the check does not find that it does."""

    def __call__(
        self, runner: Runner, path: Path, reference: KerasReference, inputs: Mapping[str, Array]
    ) -> Diagnosis | None: ...


def explained(runner: Runner, path: Path, reference: KerasReference, inputs: Mapping[str, Array]) -> Diagnosis | None:
    """Returns why an artifact differs from the model, as far as that is found within the time of a diagnosis.

    Args:
        runner: The runtime.
        path: The artifact.
        reference: The model as it was exported.
        inputs: A case in which the two differ.
    """
    search: Search = find(_SEARCH)
    try:
        return search(runner, path, reference, inputs)
    except Exception:  # whatever a layer raises: that the two differ is known without it
        return None
