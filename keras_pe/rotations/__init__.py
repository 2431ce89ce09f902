"""The signal in float32 Keras operations, exact at any position: rotations by the digits of a position, composed."""

import keras as keras  # first of all: importing Keras imports the layers, which need the modules of this package whole
