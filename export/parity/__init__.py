"""Runs a model and its exported artifact, compares their outputs, and names the layer and the cause of a difference."""
