"""Compares the outputs of two runtimes: references, inputs, runs, comparison, and tolerance policies."""
