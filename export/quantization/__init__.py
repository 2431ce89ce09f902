"""Runs the quantizers of other packages, checks each file on rows of a data set, and writes it with its plan."""
