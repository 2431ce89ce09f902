"""Detects causes outside the file: layers that Keras compiles differently, and a runtime's optimizations.

The model is traced with the sizes of the case, and then with dynamic sizes if that explains nothing. Keras may confuse
two axes whose sizes are known to be equal.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_pe.export.comparison.compare import compare_outputs
from keras_pe.export.comparison.optimization_search import guilty_optimizations
from keras_pe.export.comparison.references.reference import Expectation
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.keras_internals import open_scopes
from keras_pe.export.model.watch.operations import is_plain_tensor, tensors_in
from keras_pe.export.model.watch.recording import recorded_symbols, state_left_alone
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.layer_call import LayerFault, as_array
from keras_pe.export.parity.diagnosis.recorded_cases import calls_of
from keras_pe.export.parity.diagnosis.relations import close, distance
from keras_pe.export.results import Array, Cause, Finding
from keras_pe.export.runtimes.runtime import Arrays, plain
from keras_pe.export.runtimes.worker import Worker

_AS_PREDICT = "is compiled, as `predict` compiles it"

_TIMEOUT = 120.0  # seconds for one session


def compiled_otherwise(probe: Probe) -> Iterator[Finding]:
    """Detects that the artifact agrees with the compiled model, which differs from the eager model."""
    failing = probe.failing()
    if not failing or probe.reference.model is None or not _is_compiled_by_tensorflow():
        return
    _, expectation, actual = failing[0]
    for is_free in (False, True):
        try:
            outputs, layers = _compile(probe.reference, expectation.case.inputs, is_free=is_free)
        except Exception as error:  # a layer may raise any error on symbolic values
            probe.note("the compiled model", error)
            continue
        if _agree(actual, outputs) and not _agree(expectation.outputs or {}, outputs):
            where = _first_that_differs(probe, expectation, layers)
            description = "" if where is None else f" The difference begins in layer {where[0]!r}: {where[1]}."
            how = f"is compiled for all sizes, but not at {expectation.case.name}" if is_free else _AS_PREDICT
            text = f"Keras returns the artifact's numbers if the model {how}.{description}"
            yield Finding(Cause.KERAS_ITSELF, text, where[0] if where else None)
            return


def layer_compiled_otherwise(probe: Probe, fault: LayerFault) -> list[Finding]:
    """Detects a layer whose compiled call returns the artifact's values, and whose eager call returns others."""
    import keras
    import tensorflow as tf

    if fault.actual is None or not _is_compiled_by_tensorflow():
        return []
    given = tuple(fault.call.arguments), dict(fault.call.keywords)

    def trace(*tensors: Any) -> Any:
        symbols = iter(tensors)
        own = keras.tree.map_structure(lambda leaf: next(symbols) if is_plain_tensor(leaf) else leaf, given)
        return fault.call.layer.call(*own[0], **own[1])

    try:
        with open_scopes(), state_left_alone():
            result = tf.function(trace, autograph=False)(*tensors_in(given))
        compiled = as_array(tensors_in(result)[fault.index])
    except Exception as error:  # a layer may raise any error on symbolic values
        probe.note(f"the compiled layer {fault.layer!r}", error)
        return []
    off = distance(compiled, fault.expected)
    if not distance(compiled, fault.actual) <= fault.tolerance < off:
        return []
    text = f"Keras returns the artifact's numbers if the layer {_AS_PREDICT}. Its eager outputs differ by {off:.1e}."
    return [Finding(Cause.KERAS_ITSELF, text, fault.layer)]


def _agree(some: Arrays, outputs: Arrays) -> bool:
    """Whether outputs have the values of the compiled model's, as far as both have them."""
    both = [(some[name], array) for name, array in outputs.items() if name in some]
    return all(close(one, other, STRICT.flat_tolerance(other)) for one, other in both)


def _is_compiled_by_tensorflow() -> bool:
    import keras

    return bool(keras.backend.backend() == "tensorflow")


def _compile(reference: Any, inputs: Mapping[str, Array], *, is_free: bool) -> tuple[Arrays, dict[str, list[Array]]]:
    """Returns the compiled model's outputs, with dynamic or fixed sizes, and those of each layer call by path."""
    import tensorflow as tf

    def trace(tensors: Mapping[str, Any]) -> Any:
        with recorded_symbols(reference.model) as symbols:
            outputs = reference.signature.call(reference.model, tensors)
        return outputs, symbols

    given = {name: tf.constant(array) for name, array in inputs.items()}
    free = {
        spec.name: tf.TensorSpec(
            [dim if isinstance(dim, int) else None for dim in spec.shape], given[spec.name].dtype, name=spec.name
        )
        for spec in reference.inputs
    }
    with open_scopes(), state_left_alone():
        outputs, layers = tf.function(trace, input_signature=[free] if is_free else None, autograph=False)(given)
    return (
        {name: plain(tensor.numpy()) for name, tensor in outputs.items()},
        {path: [tensor.numpy() for tensor in tensors] for path, tensors in layers.items()},
    )


def _first_that_differs(
    probe: Probe, expectation: Expectation, compiled: Mapping[str, list[Array]]
) -> tuple[str, str] | None:
    """Returns the path of the first layer with another output, and a description of the difference."""
    for call in calls_of(probe, probe.reference.model, expectation.case.inputs):
        for one, other in zip(call.outputs, compiled.get(call.path, ()), strict=False):
            if one.dtype != other.dtype:
                return call.path, f"it returns {one.dtype} eagerly, and {other.dtype} if it is compiled"
            if not close(one, other, STRICT.flat_tolerance(other)):
                return call.path, f"its outputs differ by {distance(one, other):.1e}"
    return None


def graph_optimization(probe: Probe) -> Iterator[Finding]:
    """Detects a level of ONNX Runtime that differs, if the file agrees without optimizations."""
    failing, spec = probe.failing(), probe.runner.spec
    if not failing or spec.family != "onnxruntime" or spec.options.get("level", "disabled") == "disabled":
        return
    path, expectation = Path(probe.run.result.artifact), failing[0][1]
    expected = expectation.in_float32 or expectation.outputs or {}

    def agrees(worker: Worker) -> bool:
        probe.budget.check()
        try:
            worker.load(path)
            worker.names = probe.runner.names
            answer = worker.run(expectation.case.inputs)
        except RuntimeFailedError:
            return False
        return all(each.passed for each in compare_outputs(expected, answer, expectation.truth))

    names = guilty_optimizations(path, spec, agrees, _TIMEOUT)
    if names is not None:
        text = f"The file is right: it agrees without optimizations, and at this level without {names}."
        yield Finding(Cause.GRAPH_OPTIMIZATION, text)


def changed_by_runtime(probe: Probe) -> Iterator[Finding]:
    """Detects a file whose tensors are right, in a runtime whose optimizations cannot be disabled separately."""
    if probe.is_sound_inside:
        text = "The file agrees without the runtime's optimizations, so the runtime changes its numbers."
        yield Finding(Cause.GRAPH_OPTIMIZATION, text)
