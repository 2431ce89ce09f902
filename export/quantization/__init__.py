"""Runs the quantizers of ONNX Runtime, checks each file on rows of a data set, and writes it with its plan."""
