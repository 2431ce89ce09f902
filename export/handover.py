"""A model on another backend than TensorFlow: handed over to a child process that has Keras on TensorFlow.

Exporters trace with TensorFlow. The child loads the model from a `.keras` file, must return what the caller's own model
returns, and exports it.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.artifacts.formats import Format
from keras_pe.export.errors import DisagreementError, UnsupportedError
from keras_pe.export.messages import first_line
from keras_pe.export.model.signature.model_signature import model_signature
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.watch.keras_internals import all_layers
from keras_pe.export.runtimes.runtime import Arrays
from keras_pe.export.smoke_test.check import draw
from keras_pe.export.smoke_test.differences import find_differences
from keras_pe.export.smoke_test.reference import as_function
from keras_pe.export.smoke_test.rounding import RoundingJudge, Verdict

_SERVE = "from keras_pe.export.handover import serve; serve()"


def is_elsewhere() -> bool:
    """Returns whether Keras runs on another backend than TensorFlow."""
    import keras

    return bool(keras.backend.backend() != "tensorflow")


def export_elsewhere(
    exporter: str, format: Format, model: Any, filepath: str | os.PathLike[str], options: Mapping[str, Any]
) -> Artifact:
    """Exports a model with another process, in which Keras runs on TensorFlow.

    Args:
        exporter: The exporter's name in `keras_pe.export`.
        format: Its format.
        model: A built `keras.Model` on any backend.
        filepath: Where the artifact will stand.
        options: The exporter's other arguments.

    Returns:
        What the exporter returned.

    Raises:
        UnsupportedError: If the model has layers that only this process knows, cannot be saved, or the other process
            ended.
        Exception: What the exporter raised.
    """
    options = dict(options)
    stage = options.pop("progress", None) or (lambda name: None)
    stage("signature")
    signature = model_signature(model, options.pop("input_signature", None), sizes=options.pop("sizes", None))
    layers = all_layers(model)
    modules = _modules(layers, format)
    # Two draws: a value next to where a function jumps may fall on either side.
    samples = [draw(layers, signature, signature.example(), seed) for seed in range(2)]
    stage("hand over")
    with tempfile.TemporaryDirectory() as folder:
        saved, job, answer = (Path(folder) / name for name in ("model.keras", "job", "answer"))
        try:
            model.save(saved)
        except Exception as error:  # whatever a layer's configuration raises
            reason = f"it cannot be saved for the TensorFlow backend: {first_line(error)}."
            raise UnsupportedError(format, model.name, reason) from error
        options["input_signature"] = signature
        content = (exporter, format, str(saved), modules, str(Path(filepath).absolute()), options, samples)
        job.write_bytes(pickle.dumps(content))
        _run([str(job), str(answer)], stage, answer, format, model.name)
        artifact, refusal = pickle.loads(answer.read_bytes())  # written by our own child, to a folder of our own
    if refusal is not None:
        raise refusal
    return artifact  # type: ignore[no-any-return]


def _modules(layers: Sequence[Any], format: Format) -> list[str]:
    """Returns the modules that define the model, which comes first, and its layers, Keras' own aside.

    Raises:
        UnsupportedError: If a class is known in this process only.
    """
    modules = []
    for layer in layers:
        module, name = type(layer).__module__, type(layer).__qualname__
        if module.partition(".")[0] == "keras":
            continue
        if module == "__main__" or "<locals>" in name:
            raise UnsupportedError(
                format,
                layers[0].name,
                f"its layer {layer.name!r} ({name}) is known in this process only, and the model must be loaded in "
                "another, on the TensorFlow backend. Put the class into a module, registered with "
                "keras.saving.register_keras_serializable(), or set KERAS_BACKEND=tensorflow here.",
                layer=layer.name,
            )
        modules.append(module)
    return list(dict.fromkeys(modules))


def _run(arguments: list[str], stage: Callable[[str], None], answer: Path, format: Format, name: str) -> None:
    """Runs the child, which writes the stages that it begins."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    command = [sys.executable, "-P", "-c", _SERVE, *arguments]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True) as child,
    ):
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("stage: "):
                stage(line.removeprefix("stage: ").strip())
        code = child.wait()
        if not answer.is_file():
            log.seek(0)
            said = log.read().decode(errors="replace").strip().splitlines()[-3:]
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            reason = f"the process on the TensorFlow backend ended with {how}: {' | '.join(said)}."
            raise UnsupportedError(format, name, reason)


def serve() -> None:
    """The child's side: exports what the job says, and leaves the artifact or the error."""
    import importlib

    import keras

    import keras_pe
    import keras_pe.export

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print as they like
    job, answer = map(Path, sys.argv[1:])
    exporter, format, saved, modules, filepath, options, samples = pickle.loads(job.read_bytes())

    def progress(name: str) -> None:
        answers.write(f"stage: {name}\n")
        answers.flush()

    content: tuple[Artifact | None, Exception | None]
    try:
        for module in modules:
            importlib.import_module(module)
        model = keras.saving.load_model(saved, compile=False)
        _compare(model, options["input_signature"], samples, format)
        content = getattr(keras_pe.export, exporter)(model, filepath, **options, progress=progress), None
    except Exception as error:  # whatever is raised, the caller raises it
        content = None, error
    try:
        text = pickle.dumps(content)
    except Exception:  # an error that holds what cannot be sent
        text = pickle.dumps((None, RuntimeError(f"{type(content[1]).__name__}: {content[1]}")))
    part = answer.with_suffix(".part")
    part.write_bytes(text)
    part.rename(answer)


def _compare(model: Any, signature: Signature, samples: list[tuple[Arrays, Arrays]], format: Format) -> None:
    """Raises DisagreementError unless the loaded model returns what the caller's own returned."""
    layers = all_layers(model)
    judge = RoundingJudge(layers, signature)
    call = as_function(model, signature)
    for inputs, outputs in samples:
        answers = call(inputs)
        differences = find_differences(answers, outputs, layers, signature)
        if judge.judge(differences, inputs, outputs, answers) is Verdict.ROUNDING:
            return
    reason = f"loaded on the TensorFlow backend it is another: {differences[0].said}"
    raise DisagreementError(format, model.name, reason)
