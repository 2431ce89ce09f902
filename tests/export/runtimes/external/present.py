"""Skips what a machine lacks, but not where CI has installed everything."""

import importlib.util
import os
from typing import NoReturn

import pytest

from keras_pe.export.runtimes.registry import named_runtimes
from keras_pe.export.runtimes.runtime import RuntimeSpec


def need(name: str) -> RuntimeSpec:
    """Returns the runtime of a name; the test is skipped without it."""
    (spec,) = named_runtimes(name)
    if (missing := spec.missing) is not None:
        leave_out(f"{name} needs {missing}")
    return spec


def need_package(name: str) -> None:
    """Skips the test without a package, by its name in imports."""
    if importlib.util.find_spec(name) is None:
        leave_out(f"{name} is not installed")


def older_python() -> str:
    """Returns a Python with ONNX Runtime 1.20.1; the test is skipped without it."""
    return _named_python("KERAS_PE_TEST_OLDER", "onnxruntime 1.20.1")


def mlserver_python() -> str:
    """Returns a Python with MLServer; the test is skipped without it."""
    return _named_python("KERAS_PE_TEST_MLSERVER", "mlserver and onnxruntime")


def leave_out(reason: str) -> NoReturn:
    """Skips the test, or fails it where `KERAS_PE_TEST_EVERYTHING` says that everything was installed."""
    if os.environ.get("KERAS_PE_TEST_EVERYTHING"):
        pytest.fail(reason)
    pytest.skip(reason)


def _named_python(variable: str, packages: str) -> str:
    python = os.environ.get(variable)
    return python if python is not None else leave_out(f"{variable} names no Python with {packages}")
