"""What the model takes: its signature, sizes, names and precision, and Keras' internals."""
