"""The exact signal in float64 NumPy: timescales, layouts and the formula."""
