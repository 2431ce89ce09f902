"""Drives the quantizers of ONNX Runtime: each file is proved on rows of a data set, and written with its plan."""
