"""Runs a SavedModel in TensorFlow, without the code of its layers."""

import importlib
import itertools
import os
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

# Spares the import of Keras, a third of TensorFlow's: what runs here has no layers.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

import tensorflow as tf

from keras_pe.export.graph.tensorflow_internals import with_constants
from keras_pe.export.runtimes.runner import in_order
from keras_pe.export.runtimes.runtime import Array, Arrays, tensor_info

_CONDITIONS = ("If", "StatelessIf")
_MOST_PRUNED = 8


class TensorFlowRuntime:
    """A SavedModel folder and its `serving_default` signature."""

    def __init__(self, path: str, libraries: Sequence[str] = ()) -> None:
        """Loads the folder.

        Args:
            path: The folder.
            libraries: Modules that bring operators which TensorFlow itself does not have.
        """
        if libraries:
            os.environ.pop("TF_USE_LEGACY_KERAS", None)  # it spares an import that these may need
        for library in libraries:
            importlib.import_module(library)
        self._module = tf.saved_model.load(path)  # the signature holds its variables weakly
        self._serve = self._module.signatures["serving_default"]
        specs = self._serve.structured_input_signature[1]
        self.inputs = tuple(tensor_info(name, specs[name].shape, specs[name].dtype.name) for name in in_order(specs))
        self.version = f"tensorflow {tf.__version__}"
        self._pruned = lru_cache(maxsize=_MOST_PRUNED)(self._prune)  # other inputs often have the same replacements

    def run(self, inputs: Mapping[str, Array]) -> Arrays:
        outputs = self._serve(**self._tensors(inputs))
        return {name: outputs[name].numpy() for name in in_order(outputs)}

    def intermediates(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        outputs = self._inner_outputs
        replaced = {outputs.get(name, name): array for name, array in replaced.items()}
        replaced |= self._siblings(inputs, replaced)
        names, read_tensors = self._pruned(tuple(replaced))
        given = [self._tensors(inputs)[name] for name in self._frozen_names]
        values = read_tensors(*given, *map(tf.constant, replaced.values()))
        read = {name: value.numpy() for name, value in zip(names, values, strict=True)}
        return read | {name: read[tensor] for name, tensor in outputs.items() if tensor in read}

    @cached_property
    def _inner_outputs(self) -> dict[str, str]:
        """The tensors of the outputs, by the names of the outputs."""
        # TensorFlow flattens a dict in the order of its sorted names.
        returned = zip(sorted(self._serve.structured_outputs), self._frozen.outputs, strict=True)
        return {name: tensor.name for name, tensor in returned}

    def _prune(self, replaced: tuple[str, ...]) -> tuple[list[str], Any]:
        """Returns the names of all tensors, and a function that returns the tensors, some of which are replaced."""
        tensors = [t for op in self._frozen.graph.get_operations() for t in op.outputs if _readable(op, t)]
        # A tensor that only a gradient reads has no value while another output of its operation is replaced.
        outputs = self._inner_outputs.values()
        names = [t.name for t in tensors if len(t.op.outputs) == 1 or t.consumers() or t.name in outputs]
        return names, self._frozen.prune([*(t.name for t in self._frozen.inputs), *replaced], names)

    def _siblings(self, inputs: Mapping[str, Array], replaced: Mapping[str, Array]) -> Arrays:
        """Returns the computed values of the other outputs of operations with a replaced output.

        TensorFlow computes no output of an operation of which another output is replaced.
        """
        operations = [self._frozen.graph.get_tensor_by_name(name).op for name in replaced]
        names = {t.name for op in operations for t in op.outputs if t.consumers()} - replaced.keys()
        if not names:
            return {}
        alone = {name: replaced[name] for name, op in zip(replaced, operations, strict=True) if len(op.outputs) == 1}
        read = self.intermediates(inputs, alone)
        return {name: read[name] for name in names if name in read}

    def conditions(self, inputs: Mapping[str, Array]) -> Mapping[str, bool]:
        if self._conditions is None:
            return {}
        names, decide = self._conditions
        tensors = self._tensors(inputs)
        values = decide(*(tensors[tensor.op.name] for tensor in decide.inputs))
        return {name.partition(":")[0]: bool(value) for name, value in zip(names, values, strict=True)}

    def weights(self) -> Arrays:
        operations = self._frozen.graph.get_operations()
        constants = {op.name: op.outputs[0] for op in operations if op.type == "Const"}
        return {name: tf.get_static_value(tensor) for name, tensor in constants.items() if tensor.dtype.is_floating}

    def float_dtypes(self) -> tuple[str, ...]:
        operations = self._frozen.graph.get_operations()
        return tuple(sorted({t.dtype.name for op in operations for t in op.outputs if t.dtype.is_floating}))

    @cached_property
    def _frozen(self) -> Any:
        """The signature as one flat graph with the weights as constants."""
        return with_constants(self._serve)

    @cached_property
    def _conditions(self) -> tuple[list[str], Any] | None:
        """The tensors that the conditions decide by, and a function that computes them; None without conditions."""
        definition = self._serve.graph.as_graph_def()
        nodes = itertools.chain(definition.node, *(each.node_def for each in definition.library.function))
        if not any(node.op in _CONDITIONS for node in nodes):
            return None
        whole = with_constants(self._serve, lower_control_flow=False)
        operations = whole.graph.get_operations()
        names = list(dict.fromkeys(op.inputs[0].name for op in operations if op.type in _CONDITIONS))
        return names, whole.prune([tensor.name for tensor in whole.inputs], names)

    @property
    def _frozen_names(self) -> list[str]:
        return [tensor.op.name for tensor in self._frozen.inputs]

    def _tensors(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        return {spec.name: tf.constant(inputs[spec.name], dtype=spec.dtype) for spec in self.inputs}


def _readable(op: Any, tensor: Any) -> bool:
    """Whether a tensor holds computed numbers, not a constant, a resource or a text."""
    return op.type not in ("Const", "Placeholder") and (tensor.dtype.is_floating or tensor.dtype.is_integer)
