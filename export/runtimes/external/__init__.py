"""ONNX Runtime outside this Python: in Node, in a browser, in another installation, driven through one protocol."""
