"""ONNX Runtime outside this Python: in Node, in a browser, or in another installation."""
