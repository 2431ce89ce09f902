"""The command line: the only package that prints or exits."""

from typing import TYPE_CHECKING

from keras_pe.lazy import lazy_names

if TYPE_CHECKING:
    from keras_pe.cli.group import main as main

__all__ = ["main"]

# `shell` has to handle Ctrl-C before click is imported.
__getattr__, __dir__ = lazy_names(__name__, __all__, {"main": "keras_pe.cli.group"})
