"""The public name of the package, with its module."""

from keras_pe.cli.group import main as main
