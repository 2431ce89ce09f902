"""Whether an artifact returns what Keras returns, which an export finds out before it publishes anything.

No dynamic size was traced, and the values are drawn. No rounding fails this test; the parity check is finer.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import (
    DisagreementError,
    ExportError,
    InvalidArtifactError,
    RuntimeFailedError,
    RuntimeRefusedError,
)
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.runtimes.runtime import Arrays, RuntimeSpec
from keras_pe.export.runtimes.worker import Worker
from keras_pe.export.smoke_test.differences import Difference, find_differences
from keras_pe.export.smoke_test.inputs import Draw, draws, images
from keras_pe.export.smoke_test.reference import as_function
from keras_pe.export.smoke_test.rounding import RoundingJudge, Verdict

TIMEOUT = 600.0  # seconds for one run on small arrays


def check_artifact(
    path: Path,
    runner: Worker,
    layers: Sequence[Any],
    signature: Signature,
    format: Format,
    *,
    spec: RuntimeSpec | None = None,
    is_repeatable: bool = True,
    judge: RoundingJudge | None = None,
) -> None:
    """Opens an artifact, compares its inputs with the model's, and runs it beside the model.

    Args:
        path: The file or folder.
        runner: The process that opens and runs it.
        layers: The model as it was exported, then every layer in it.
        signature: Its signature.
        format: For the error.
        spec: The runtime, where the process has started with another one.
        is_repeatable: Whether two calls on the same inputs are alike. Otherwise the artifact is run alone.
        judge: Of small differences, where one has been made for this model.

    Raises:
        InvalidArtifactError: If it does not open or run, or takes anything else than the model.
        DisagreementError: If it returns something else.
    """
    name = layers[0].name

    def checked(step: str, request: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return request(*arguments)
        except RuntimeFailedError as error:
            raise InvalidArtifactError(format, name, f"the runtime {step}: {error}.") from error

    checked("does not open it", runner.load, path, spec)
    actual, expected = ({spec.name for spec in specs} for specs in (runner.inputs, signature.inputs))
    if actual != expected:
        raise InvalidArtifactError(format, name, f"it takes {sorted(actual)}, the model {sorted(expected)}.")

    def run(inputs: Arrays) -> Arrays:
        return checked("opens it and does not run it", runner.run, inputs)  # type: ignore[no-any-return]

    if is_repeatable:
        check_agreement(run, layers, signature, format, judge)
    else:
        run({name: np.asarray(array) for name, array in signature.example().items()})


def check_agreement(
    run: Callable[[Arrays], Arrays],
    layers: Sequence[Any],
    signature: Signature,
    format: Format,
    judge: RoundingJudge | None = None,
) -> None:
    """Compares the shapes of what an artifact returns with Keras, and the floating-point numbers, at two sizes.

    What differs may be Keras' own rounding, which is told by the model in float64. Where rounding drowns the answer,
    values of both signs tell nothing of the model, and those of images are drawn: a network that was trained on pixels
    may be noise elsewhere. A comparison that fails is made once more, with other values and with Keras in a
    `tf.function`: a value next to where a function jumps may fall on either side, and there are layers that do
    something else in a graph.

    Args:
        run: Runs the artifact, and raises whatever it raises.
        layers: The model as it was exported, then every layer in it.
        signature: Its signature.
        format: For the error.
        judge: Of small differences, where one has been made for this model.

    Raises:
        DisagreementError: If both comparisons fail, or the outputs have other names.
    """
    import tensorflow as tf

    judge = judge or RoundingJudge(layers, signature)
    kinds: list[Draw] = [draws, images]
    sizes = [signature.sizes, signature.other_sizes()]
    for number, zeros in enumerate(map(signature.example, sizes if sizes[0] != sizes[1] else sizes[:1])):
        with tf.device("/cpu:0"):  # a GPU may multiply float32 in TF32, which has ten bits
            # With the first sizes the model is known to run.
            verdict, differences = _compared(run, layers, signature, zeros, kinds, judge, must_run=number == 0)
        if verdict is not Verdict.ROUNDING:
            reason = differences[0].said
            if verdict is Verdict.UNKNOWN:
                reason += " Rounding moves Keras' own answer as far, so that no comparison tells anything."
            raise DisagreementError(format, layers[0].name, reason)


def _compared(
    run: Callable[[Arrays], Arrays],
    layers: Sequence[Any],
    signature: Signature,
    zeros: Mapping[str, Any],
    kinds: list[Draw],
    judge: RoundingJudge,
    *,
    must_run: bool,
) -> tuple[Verdict, list[Difference]]:
    """Returns what an artifact and Keras differ by at one size, and what that comes from.

    A kind of inputs that tells nothing goes to the end of the list.
    """
    import tensorflow as tf

    verdict, differences = Verdict.ROUNDING, list[Difference]()
    # Most models end with the first comparison: tracing a model for one call takes longer than calling it eagerly.
    for seed, compiled in enumerate((lambda call: call, lambda call: tf.function(call, autograph=False))):
        keras = as_function(layers[0], signature, compiled)
        for kind in tuple(kinds):
            try:
                compared = _run_both(run, keras, kind(zeros, seed, signature.vocabularies))
            except ExportError:
                raise
            except Exception:  # whatever the layers raise
                if must_run and seed == 0:
                    raise
                return verdict, differences
            differences = find_differences(*compared[1:], layers, signature)
            verdict = judge.judge(differences, *compared)
            if verdict is not Verdict.UNKNOWN:
                break
            kinds.append(kinds.pop(0))
        if verdict is Verdict.ROUNDING:
            break
    return verdict, differences


def _run_both(
    run: Callable[[Arrays], Arrays], keras: Callable[[Arrays], Arrays], drawn: Sequence[Arrays]
) -> tuple[Arrays, Arrays, Arrays]:
    """Returns the first inputs that Keras takes, and what an artifact and Keras return for them.

    The artifact comes first: an operator that ends its process, which is a child, would end this one in Keras as well.
    """
    for number, inputs in enumerate(drawn):
        refusal = None
        try:
            results = run(inputs)
        except InvalidArtifactError as error:
            if not isinstance(error.__cause__, RuntimeRefusedError):
                raise
            refusal = error  # Keras may refuse these inputs as well
        try:
            truths = keras(inputs)
        except Exception:  # whatever the layers raise
            if number == len(drawn) - 1:
                raise
            continue
        if refusal is not None:
            raise refusal
        break
    return inputs, results, truths


def draw(layers: Sequence[Any], signature: Signature, zeros: Mapping[str, Any], seed: int) -> tuple[Arrays, Arrays]:
    """Returns inputs and what Keras returns for them: of drawn values, or of zeros if the model takes no others."""
    keras = as_function(layers[0], signature)
    *drawn, plain = draws(zeros, seed, signature.vocabularies)
    for values in drawn:
        with contextlib.suppress(Exception):  # whatever the layers raise
            return values, keras(values)
    return plain, keras(plain)
