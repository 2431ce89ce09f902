"""Measures the error of common position encodings against the exact signal."""
