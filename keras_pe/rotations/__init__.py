"""The signal in float32 Keras operations, exact at any position."""

import keras as keras  # first of all: importing Keras imports the layers, which need the modules of this package whole
