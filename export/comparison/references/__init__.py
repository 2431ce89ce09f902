"""The references of artifacts: a Keras model, another artifact, or stored outputs."""
