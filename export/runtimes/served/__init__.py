"""Models behind an address: the Open Inference Protocol, and TensorFlow Serving's."""
