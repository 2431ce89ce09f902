"""The command `keras-pe`, a group of commands.

A command module imports nothing heavy at its top, so that `keras-pe --help` and a mistyped path answer at once.
"""

import os

import click

from keras_pe.cli.check import check
from keras_pe.cli.demo import demo
from keras_pe.cli.doctor import doctor
from keras_pe.cli.export import export
from keras_pe.cli.export_decoder import export_decoder
from keras_pe.cli.identify import identify
from keras_pe.cli.inspect import inspect
from keras_pe.cli.plot import plot
from keras_pe.cli.quantize import quantize


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="keras-pe")
def main() -> None:
    """Position encodings for Keras, exports of models, and checks of exported files."""
    # TensorFlow's native code logs what it finds of the machine; who wants to read that has set a level of their own.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


main.add_command(check)
main.add_command(demo)
main.add_command(doctor)
main.add_command(export)
main.add_command(export_decoder)
main.add_command(identify)
main.add_command(inspect)
main.add_command(plot)
main.add_command(quantize)
