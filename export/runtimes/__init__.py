"""One file a runtime: how to load an artifact and run it.

This module is the interface for authors of runtimes; the modules below may change from one version to the next.
"""

from typing import TYPE_CHECKING

from keras_pe.lazy import lazy_names

if TYPE_CHECKING:
    from keras_pe.export.artifacts.onnx_model import weight_files
    from keras_pe.export.processes.process import Process
    from keras_pe.export.runtimes.intermediates import InspectedModel
    from keras_pe.export.runtimes.runtime import Array, Arrays, RuntimeName, as_dtype, tensor_info

__all__ = ["Array", "Arrays", "InspectedModel", "Process", "RuntimeName", "as_dtype", "tensor_info", "weight_files"]

_LAZY = {
    "Array": "keras_pe.export.runtimes.runtime",
    "Arrays": "keras_pe.export.runtimes.runtime",
    "InspectedModel": "keras_pe.export.runtimes.intermediates",
    "Process": "keras_pe.export.processes.process",
    "RuntimeName": "keras_pe.export.runtimes.runtime",
    "as_dtype": "keras_pe.export.runtimes.runtime",
    "tensor_info": "keras_pe.export.runtimes.runtime",
    "weight_files": "keras_pe.export.artifacts.onnx_model",
}

__getattr__, __dir__ = lazy_names(__name__, __all__, _LAZY)
