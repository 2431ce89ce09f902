"""Starts Keras for a command: without a word, and so that memory which is no longer needed goes back to the system.

What TensorFlow logs when it starts reaches the terminal only if the start fails.
"""

import os
import sys
import tempfile


def start_keras() -> None:
    """Imports Keras and its backend, which write to the standard error past Python.

    Raises:
        ImportError: If one of them is missing or broken; what they wrote is shown then.
    """
    # oneDNN's own allocator takes memory in powers of two and keeps what it once had: a model and its float64 rebuild
    # hold twice what they weigh then.
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "1")
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
