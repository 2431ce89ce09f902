"""What the artifacts are measured against: a Keras model, another artifact, or stored outputs."""
