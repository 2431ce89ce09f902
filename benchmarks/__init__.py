"""Measures every figure in the documentation: `python -m benchmarks`."""
