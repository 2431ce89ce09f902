"""Layers, one a file."""
