"""The operators that tf2onnx lacks or gets wrong."""


def register_handlers() -> None:
    """Registers the handlers with tf2onnx. A second call changes nothing."""
