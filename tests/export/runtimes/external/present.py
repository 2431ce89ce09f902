"""Skips what a machine lacks, but not where CI has installed everything."""

import os

import pytest

from keras_pe.export.runtimes.registry import named_runtimes
from keras_pe.export.runtimes.runtime import RuntimeSpec


def need(name: str) -> RuntimeSpec:
    """Returns the runtime of a name. Skips the test if it is missing; fails it if `KERAS_PE_TEST_EVERYTHING` is set."""
    (spec,) = named_runtimes(name)
    if (missing := spec.missing) is not None:
        if os.environ.get("KERAS_PE_TEST_EVERYTHING"):
            pytest.fail(f"{name} needs {missing}")
        pytest.skip(f"{name} needs {missing}")
    return spec
