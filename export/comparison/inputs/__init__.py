"""Draws and reads the inputs that a check feeds to a model."""
