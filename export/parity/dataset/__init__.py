"""Parity on a data set of any size: many small results that merge."""
