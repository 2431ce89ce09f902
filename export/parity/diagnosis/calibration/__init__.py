"""Finds the faults of a quantizer's calibration: ranges, scales and types that do not fit the values."""
