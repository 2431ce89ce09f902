"""Starts Keras without a word: what TensorFlow logs when it starts reaches the terminal only if the start fails."""

import os
import sys
import tempfile


def start_keras() -> None:
    """Imports Keras and its backend, which write to the standard error past Python.

    Raises:
        ImportError: If one of them is missing or broken; what they wrote is shown then.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        started = False
        try:
            import keras

            keras.ops.zeros(())  # the devices are looked for at the first operation
            started = True
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            if not started:
                log.seek(0)
                os.write(2, log.read())
