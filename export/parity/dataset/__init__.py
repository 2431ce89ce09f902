"""Checks parity on a data set of any size, by small results that merge."""
