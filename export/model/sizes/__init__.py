"""Which sizes a model takes: asked of Keras by inferred shapes, and searched for."""
