"""Finds the layer and the cause of a failing artifact's difference."""
