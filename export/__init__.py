"""How a model leaves Keras, and the proof that it arrived."""
