"""Types that operators of a traced graph have for the handlers alone."""

RECURRENCE = "PyFuncStateless"
"""A recurrent layer: takes and returns any tensors, and TensorFlow's optimizer leaves it as it is."""

OF_COMPLEX = " of complex numbers"
"""Ends the type of an operator that takes or returns them."""
