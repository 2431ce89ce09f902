"""The command line: the only package that prints or exits."""

from keras_pe.cli.group import main as main
