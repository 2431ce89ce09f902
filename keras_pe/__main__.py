"""`python -m keras_pe`: the command line."""

from keras_pe.cli import main

main(prog_name="keras-pe")
