"""Observes a model's calls: its layers and operations, decisions by inputs, symbolic traces, private names of Keras."""
