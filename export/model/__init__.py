"""The Keras model: its signature, sizes, names and precision, and private names of Keras."""
