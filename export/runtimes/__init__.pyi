"""The public names of the package, each with its module."""

from keras_pe.export.artifacts.onnx_model import weight_files as weight_files
from keras_pe.export.errors import RuntimeDiedError as RuntimeDiedError
from keras_pe.export.errors import RuntimeFailedError as RuntimeFailedError
from keras_pe.export.errors import RuntimeHungError as RuntimeHungError
from keras_pe.export.errors import RuntimeRefusedError as RuntimeRefusedError
from keras_pe.export.processes.process import Process as Process
from keras_pe.export.runtimes.onnx_intermediates import InspectedModel as InspectedModel
from keras_pe.export.runtimes.runtime import Array as Array
from keras_pe.export.runtimes.runtime import Arrays as Arrays
from keras_pe.export.runtimes.runtime import InspectableRuntime as InspectableRuntime
from keras_pe.export.runtimes.runtime import Runtime as Runtime
from keras_pe.export.runtimes.runtime import RuntimeName as RuntimeName
from keras_pe.export.runtimes.runtime import RuntimeSpec as RuntimeSpec
from keras_pe.export.runtimes.runtime import as_dtype as as_dtype
from keras_pe.export.runtimes.runtime import tensor_info as tensor_info
