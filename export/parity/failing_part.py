"""Cuts the smallest part that fails alone out of an ONNX file, with the tensors that the runtime computed there."""

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.comparison.float_types import is_float
from keras_pe.export.comparison.name_matching import runner_names
from keras_pe.export.comparison.tolerance import STRICT
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.parity.bundle_script import largest_difference
from keras_pe.export.progress import TIMEOUT, Budget, OutOfTimeError
from keras_pe.export.results import Array, Recording, RuntimeResult
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec
from keras_pe.export.runtimes.worker import Worker

_SECONDS = 60.0  # for the search of one part
_SLACK = 8.0  # factor on the tolerance of values without a noise floor


@dataclass(frozen=True)
class FailingPart:
    """A part of an ONNX file that fails alone in the runtime of a failure.

    Attributes:
        model: The part as an ONNX file, with its weights.
        inputs: The values that the runtime computed there, by tensor.
        expected: The expected outputs, by tensor.
        actual: The runtime's outputs of the part, by tensor.
    """

    model: bytes
    inputs: Mapping[str, Array]
    expected: Mapping[str, Array]
    actual: Mapping[str, Array]


def find_failing_part(result: RuntimeResult, recording: Recording, spec: RuntimeSpec | None) -> FailingPart | str:
    """Returns the smallest failing part of an ONNX file that a search of a minute finds, or the reason for no part.

    A part ends at the tensor of the first layer at fault, and begins at the last tensors that agree. If it passes
    alone, an earlier beginning is tried. If the optimizations of the runtime are at fault, each layer's tensor is
    tried as the end, and the values without optimizations are expected.

    Args:
        result: A failed result with its layers.
        recording: Its recording.
        spec: The runtime that failed; None if it is unknown.
    """
    if result.format != Format.ONNX:
        return f"a part is cut out of ONNX files only, and the artifact has the format {result.format!r}"
    if spec is None:
        return f"the runtime {result.runtime!r} is not registered"
    if recording.chunks is not None:
        return "the file is right in each call of the sequence"
    if not result.layers:
        return "the tensors of the file could not be compared with layers"
    try:
        with Worker(spec, TIMEOUT) as worker, tempfile.TemporaryDirectory() as folder:
            worker.load(Path(result.artifact))
            targets, cut = _prepare(worker, result, recording)
            budget = Budget(_SECONDS)
            for target, begin in cut.ranges(targets):
                budget.check()
                part = _run_alone(worker, cut.part(target.name, begin), target, cut.tensors, Path(folder) / "part.onnx")
                if part is not None:
                    return part
    except (RuntimeFailedError, OutOfTimeError, ValueError) as error:
        return f"no part was found ({error})"
    return "no part of the file fails alone"


@dataclass(frozen=True)
class _Target:
    """A tensor at which a part may end, with its expected values."""

    name: str
    expected: Array
    tolerance: float


def _prepare(worker: Worker, result: RuntimeResult, recording: Recording) -> tuple[list[_Target], "_Cut"]:
    """Returns the possible ends of a part, and the file with the tensors that the runtime computes."""
    layer = recording.layer if recording.layer is not None and recording.layer.tensor else None
    case = recording.inputs if layer is None else layer.case
    worker.names = names = runner_names(result.names)
    inner = worker.intermediates(case, {})
    tensors = {**names.to_artifact(case), **names.inner_to_artifact(inner)}
    agreeing = (each.tensor for each in result.layers if each.tensor and not each.differs)
    right = names.inner_to_artifact({tensor: inner[tensor] for tensor in agreeing if tensor in inner})
    if layer is not None:
        end = str(layer.tensor)
        expected = names.inner_to_artifact({end: layer.expected.reshape(inner[end].shape)})
        targets = [_Target(name, array, layer.tolerance) for name, array in expected.items()]
    else:
        is_sound = not any(each.differs for each in result.layers)
        ends = (right if is_sound else {}) | names.inner_to_artifact(recording.expected)
        floats = {name: array for name, array in ends.items() if is_float(array.dtype) and name in tensors}
        targets = [_Target(name, array, _SLACK * STRICT.flat_tolerance(array)) for name, array in floats.items()]
    return targets, _Cut(Path(result.artifact), tensors, right)


def _run_alone(worker: Worker, model: Any, target: _Target, tensors: Arrays, path: Path) -> FailingPart | None:
    """Returns a part if the runtime's output of it differs from the expected values."""
    import onnx_ir as ir

    ir.save(model, path)
    inputs = {value.name: tensors[value.name] for value in model.graph.inputs}
    try:
        worker.load(path)
        actual = worker.run(inputs)
    except RuntimeFailedError:
        return None
    if largest_difference(target.expected, actual[target.name]) <= target.tolerance:
        return None
    return FailingPart(path.read_bytes(), inputs, {target.name: target.expected}, actual)


class _Cut:
    """An ONNX file with the tensors of one case.

    Args:
        path: The file.
        tensors: The values that the runtime computes without optimizations, and the inputs of the case, by name.
        right: The names of the tensors that agree with the reference.
    """

    def __init__(self, path: Path, tensors: Arrays, right: Collection[str]) -> None:
        import onnx_ir as ir

        self.tensors = tensors
        self._model = ir.load(path)
        outputs = (value.name for node in self._model.graph for value in node.outputs)
        self._order = {name: place for place, name in enumerate(outputs)}
        self._right = sorted({each for each in right if each in self._order}, key=self._order.__getitem__)

    def ranges(self, targets: Iterable[_Target]) -> Iterator[tuple[_Target, list[str]]]:
        """Yields each target with the tensors at which a part may begin: the nearest ones first, at last none."""
        ordered = sorted(
            (each for each in targets if each.name in self._order), key=lambda each: self._order[each.name]
        )
        before = [[name for name in self._right if self._order[name] < self._order[each.name]] for each in ordered]
        left_out = 0
        while ordered and left_out <= 2 * max(map(len, before)):
            for target, names in zip(ordered, before, strict=True):
                if left_out < 2 * len(names) or not left_out:
                    yield target, names[: max(0, len(names) - left_out)]
            left_out = 2 * left_out or 1

    def part(self, end: str, begin: Sequence[str]) -> Any:
        """Returns the model that computes a tensor from other tensors and from inputs of the file."""
        import onnx_ir as ir

        given = [str(value.name) for value in self._model.graph.inputs if value.name not in begin]
        graph = ir.convenience.extract(self._model.graph, [*begin, *given], [end])
        used = [value for value in graph.inputs if value.uses()]
        graph.inputs[:] = used
        for value in (*graph.inputs, *graph.outputs):
            array = self.tensors[str(value.name)]
            value.dtype = ir.DataType.from_numpy(array.dtype)
            value.shape = value.shape or ir.Shape([None] * array.ndim)
        functions = self._model.functions.values()
        model = ir.Model(graph, ir_version=self._model.ir_version, functions=[each.clone() for each in functions])
        return ir.external_data.load_to_model(model)
