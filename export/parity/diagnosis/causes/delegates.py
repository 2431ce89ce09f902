"""Detects faults of a runtime with a right LiteRT file: wrong operators, zeros, and computation in 16 bits.

LiteRT's own kernels are the reference. A file in which no operator depends on another one shows the faults of each
operator: the operators receive the values that the kernels computed.
"""

import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.comparison.float_types import largest
from keras_pe.export.comparison.references.keras import KerasReference
from keras_pe.export.comparison.run_cases import run_cases
from keras_pe.export.comparison.tolerance import SHARES
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.watch.layer_paths import find_layer, layer_paths, layer_scopes
from keras_pe.export.parity.diagnosis.detector_context import Probe
from keras_pe.export.parity.diagnosis.recorded_cases import calls_of, rank
from keras_pe.export.parity.diagnosis.relations import distance
from keras_pe.export.results import HALF, Array, Cause, Finding, OtherValue
from keras_pe.export.runtimes.litert_inner_tensors import (
    SeparateOperator,
    SeparateOperators,
    round_constants,
    round_to,
    separate_operators,
)
from keras_pe.export.runtimes.registry import named_runtimes
from keras_pe.export.runtimes.runner import Runner
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec

_KERNELS = "litert[builtin]"
_NOISE = 1 / 32  # largest error of float32 kernels, in errors that rounding to float16 makes
_SUMS = 16.0  # largest error of kernels that also add in 16 bits, in errors that rounding to 16 bits makes
_ALIKE = 0.5  # least correlation of the errors of kernels with rounded operands and the errors of their rounding
_FUNCTIONS = frozenset(["COS", "ELU", "EXP", "GELU", "LOG", "LOGISTIC", "RSQRT", "SIN", "SQRT", "TANH"])
_ROUNDINGS = 16  # largest error of a function in float32, in roundings of its largest value
_FEW = 8  # values, or operators, below which an agreement may be chance
_MOST_LAYERS = 8
_SAID = 3


def faulty_delegate(probe: Probe) -> Iterator[Finding]:
    """Detects operators that a runtime computes differently from LiteRT's own kernels, with which the file is right."""
    failing, spec = probe.failing(), probe.runner.spec
    (kernels,) = named_runtimes(_KERNELS)
    if not failing or spec.format != Format.LITERT or spec == kernels or not kernels.installed:
        return
    path, runner = Path(probe.run.result.artifact), probe.runner
    with _reloaded_after(runner, path), tempfile.TemporaryDirectory() as folder:
        expectations = [expectation for _, expectation, _ in failing]
        if not run_cases(runner, kernels, path, probe.reference, expectations).result.passed:
            return
        inputs = min(expectations, key=rank).case.inputs
        try:
            tensors = runner.intermediates(inputs, {})
            separate = separate_operators(path, runner.names.to_artifact(inputs), tensors)
            results = _compare(spec, kernels, runner, separate, Path(folder))
        except RuntimeFailedError as error:
            probe.note("the operators one by one", error)
            tensors, results = {}, []
    layers = _Layers(probe, inputs, tensors)
    findings = list(_findings(results, layers, _short_float(results)))
    findings = findings or list(_findings(_coarse_functions(results), layers, None))
    yield from findings
    if not findings:
        text = "The file agrees in LiteRT's own kernels, so the runtime changes its numbers."
        yield Finding(Cause.GRAPH_OPTIMIZATION, text)


@contextlib.contextmanager
def _reloaded_after(runner: Runner, path: Path) -> Iterator[None]:
    """Loads a runner's artifact again at the end. Other artifacts and runtimes then need no process of their own."""
    spec, names = runner.spec, runner.names
    try:
        yield
    finally:
        runner.load(path, spec)
        runner.names = names


@dataclass(frozen=True)
class _Result:
    """An output of an operator that received right inputs.

    Attributes:
        operator: The operator.
        tensor: The name of the output in the artifact.
        expected: The output of LiteRT's own kernel.
        actual: The output of the runtime.
        rounded: The outputs of LiteRT's own kernel with inputs, constants and output rounded to a shorter float, by the
            name of the float.
        share: The largest difference between two float32 kernels, as a share of the largest value; None if the
            operator may add many products.
    """

    operator: SeparateOperator
    tensor: str
    expected: Array
    actual: Array
    rounded: Mapping[str, Array]
    share: float | None = None

    @property
    def difference(self) -> float:
        """The largest difference from the right output."""
        return distance(self.actual, self.expected)

    @property
    def tolerance(self) -> float:
        """The largest difference between two float32 kernels."""
        if self.expected.dtype.kind != "f":
            return 0.0
        if self.share is not None:
            return self.share * largest(self.expected, 0.0)
        return max(SHARES["float32"] * largest(self.expected, 0.0), _NOISE * self.rounding("float16"))

    @property
    def differs(self) -> bool:
        """Whether the output is wrong for a kernel of float32."""
        return self.difference > self.tolerance

    @property
    def is_zero(self) -> bool:
        """Whether the output is zero, and should not be."""
        return self.differs and not self.actual.any() and bool(self.expected.any())

    def rounding(self, dtype: str) -> float:
        """Returns the difference that rounding to a shorter float makes; infinity if it overflows."""
        return distance(self.rounded[dtype], self.expected)

    def may_be_rounded(self, dtype: str) -> bool:
        """Whether the difference is as large as a kernel makes that computes in a shorter float."""
        if np.isfinite(self.rounded[dtype]).all() and not np.isfinite(self.actual).all():
            return False
        return self.difference <= _SUMS * self.rounding(dtype) and not self.is_zero

    def is_rounded(self, dtype: str) -> bool:
        """Whether the shorter float represents all values, or the errors are those of rounded operands."""
        if self.expected.dtype.kind != "f" or self.expected.size < _FEW:
            return False
        if np.array_equal(round_to(self.actual, dtype), self.actual, equal_nan=True):
            return not np.array_equal(round_to(self.expected, dtype), self.expected, equal_nan=True)
        errors = [(each - self.expected).ravel() for each in (self.actual, self.rounded[dtype])]
        finite = np.isfinite(errors).all(0)
        one, two = (each[finite].astype(np.float64) for each in errors)
        sizes = float(np.sqrt((one @ one) * (two @ two)))
        return sizes > 0 and float(one @ two) > _ALIKE * sizes


def _compare(
    spec: RuntimeSpec, kernels: RuntimeSpec, runner: Runner, separate: SeparateOperators, folder: Path
) -> list[_Result]:
    """Returns the outputs of the operators in a runtime beside LiteRT's own kernels, in the order of computation.

    Raises:
        RuntimeFailedError: If the runtime does not take the operators one by one.
    """

    def run(runtime: RuntimeSpec, content: bytes, inputs: Arrays) -> Arrays:
        file = folder / "operators.tflite"
        file.write_bytes(content)
        runner.load(file, runtime)
        return runner.run(inputs)

    def run_rounded(dtype: str) -> Arrays:
        inputs = {name: round_to(array, dtype) for name, array in separate.inputs.items()}
        outputs = run(kernels, round_constants(separate.content, dtype), inputs)
        return {name: round_to(array, dtype) for name, array in outputs.items()}

    expected = run(kernels, separate.content, separate.inputs)
    rounded = {dtype: run_rounded(dtype) for dtype in HALF}
    actual = run(spec, separate.content, separate.inputs)
    return [
        _Result(operator, tensor, expected[name], actual[name], {dtype: each[name] for dtype, each in rounded.items()})
        for operator in separate.operators
        for tensor, name in operator.outputs.items()
    ]


def _coarse_functions(results: Sequence[_Result]) -> list[_Result]:
    """Returns the functions of single numbers with a tolerance of some roundings: sums make larger errors."""
    return [replace(each, share=_ROUNDINGS * 2.0**-24) for each in results if each.operator.kind in _FUNCTIONS]


class _Layers:
    """The layers of operators: by the names of tensors, otherwise by the values of tensors and of layers' outputs."""

    def __init__(self, probe: Probe, inputs: Mapping[str, Array], tensors: Arrays) -> None:
        self._probe, self._inputs, self._tensors = probe, inputs, tensors
        model = probe.reference.model
        self._scopes = {} if model is None else layer_scopes(path for path, _ in layer_paths(model))

    def of(self, result: _Result) -> str | None:
        """Returns the path of the layer of an operator; None if it is unknown."""
        return find_layer(result.operator.path, self._scopes) or self._by_values(result.tensor)

    def _by_values(self, tensor: str) -> str | None:
        """Returns the layer that outputs the tensor, or else the next tensor of a layer."""
        if not isinstance(self._probe.reference, KerasReference):
            return None
        calls = calls_of(self._probe, self._probe.reference.model, self._inputs)
        after = itertools.dropwhile(lambda name: name != tensor, self._tensors)
        for array in (self._tensors[name] for name in after):
            for call in calls:
                for output in call.outputs:
                    is_like = output.size == array.size and output.dtype == array.dtype and output.size > 1
                    if is_like and distance(output.ravel(), array.ravel()) <= SHARES["float32"] * largest(output, 1.0):
                        return call.layer_path or None
        return None


def _findings(results: Sequence[_Result], layers: _Layers, dtype: str | None) -> Iterator[Finding]:
    """Yields the causes, from the operators that differ with right inputs.

    Args:
        results: The outputs of the operators.
        layers: The layers of the operators.
        dtype: The shorter float that explains most operators that differ; None if none does.
    """
    differing = [each for each in results if each.differs]
    telling = [each for each in results if each.expected.dtype.kind == "f" and each.expected.any()]
    wrong = [each for each in differing if dtype is None or not each.may_be_rounded(dtype)]
    if dtype is not None:
        short = [each for each in differing if each not in wrong]
        layer = layers.of(short[0]) if len(short) == 1 else None  # several operators are of the whole model
        yield Finding(Cause.COMPUTED_IN_16_BITS, _describe_rounding(short, results, dtype), layer)
    for cause in (Cause.ZERO_VECTOR, Cause.WRONG_OPERATOR):
        found = [each for each in wrong if each.is_zero == (cause is Cause.ZERO_VECTOR)]
        groups = dict[str | None, list[_Result]]()
        is_everywhere = len(found) > _FEW and len(found) == len(telling)
        for each in found:
            groups.setdefault(None if is_everywhere else layers.of(each), []).append(each)
        for layer, group in itertools.islice(groups.items(), _MOST_LAYERS):
            kinds = tuple(dict.fromkeys(each.operator.kind for each in group))
            text = _describe_operators(cause, group)
            yield Finding(cause, text, layer, parameters=(OtherValue("operator", None, ", ".join(kinds)),))


def _short_float(results: Sequence[_Result]) -> str | None:
    """Returns the shorter float that explains most operators that differ; None if none does."""
    near = {dtype: [each for each in results if each.differs and each.may_be_rounded(dtype)] for dtype in HALF}
    sure = {dtype: [each for each in found if each.is_rounded(dtype)] for dtype, found in near.items()}
    dtype = max(HALF, key=lambda dtype: len(sure[dtype]))
    telling = [each for each in results if each.rounding(dtype) > each.tolerance]
    is_likely = len(near[dtype]) > len(telling) / 2 or len(sure[dtype]) > len(near[dtype]) / 2
    return dtype if sure[dtype] and is_likely else None


def _describe_rounding(short: Sequence[_Result], results: Sequence[_Result], dtype: str) -> str:
    largest_one = max(short, key=lambda each: each.difference / max(largest(each.expected, 0.0), 1e-30))
    overflow = [each for each in short if not np.isfinite(each.rounded[dtype]).all()]
    description = f" {overflow[0].operator.kind} exceeds the range of {dtype}." if overflow else ""
    return (
        f"The file is right: it agrees in LiteRT's own kernels. With right inputs, {len(short)} of {len(results)} "
        f"operators are off by the rounding of {dtype}, {largest_one.operator.kind} by "
        f"{largest_one.difference:.1e}.{description}"
    )


def _describe_operators(cause: Cause, group: Sequence[_Result]) -> str:
    first, names = group[0], ", ".join(dict.fromkeys(each.operator.kind for each in group[:_SAID]))
    returned = "zeros" if cause is Cause.ZERO_VECTOR else f"values that are off by {first.difference:.1e}"
    return (
        f"The file is right: it agrees in LiteRT's own kernels. With right inputs, the runtime returns {returned} for "
        f"{names} ({first.tensor.partition(';')[0]})."
    )
