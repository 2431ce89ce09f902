"""Measures the run time of the encodings in each runtime, on one thread and on two."""
