"""From a Keras model to a checked, named, streamed ONNX file."""
