"""Types that operators of a traced graph have for the handlers alone."""

OF_COMPLEX = " of complex numbers"
"""Ends the type of an operator that takes or returns them."""
