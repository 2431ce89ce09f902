"""The signal in float32 Keras operations, exact at any position: rotations by the digits of a position, composed."""
