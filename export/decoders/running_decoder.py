"""Runs the file of a decoder call by call, and keeps the keys and values of earlier calls."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.state import State
from keras_pe.export.dependencies import require
from keras_pe.export.errors import first_line

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"  # the files of a model with both
_ENCODER_MASK = "encoder_attention_mask"
Tokens = npt.NDArray[np.int64]


class RunningDecoder(Protocol):
    """A decoder in the middle of a text."""

    def step(self, tokens: Tokens, mask: Tokens) -> npt.NDArray[Any]:
        """Returns the logits of the next tokens, `[batch, length, vocabulary]`, and keeps their keys and values.

        Args:
            tokens: The tokens, `[batch, length]`.
            mask: 1 for a token and 0 for padding, of the earlier tokens too, `[batch, total]`.
        """


def has_encoder(artifact: Artifact) -> bool:
    """Returns whether each call of a decoder takes the text of an encoder."""
    return _ENCODER_MASK in {spec.name for spec in artifact.inputs}


def open_decoder(
    artifact: Artifact, batch: int, length: int, text: tuple[Tokens, Tokens] | None = None
) -> RunningDecoder:
    """Returns the decoder of a file before the first call.

    Args:
        artifact: The artifact.
        batch: The number of rows.
        length: The largest number of tokens of a row, with its padding.
        text: The tokens of an encoder's text and their mask, for a decoder with an encoder.

    Raises:
        ValueError: If the file is not that of a decoder, or is too short for the rows.
        ImportError: If the runtime is missing.
    """
    names = {spec.name for spec in artifact.inputs}
    if artifact.states and "attention_mask" in names:
        require("generate", "onnxruntime", extra="export")
        context = {} if text is None else _encode(artifact.path.with_name(ENCODER), *text)
        return OnnxDecoder(_session(artifact.path), artifact.states, artifact.initial_state(batch, length), context)
    if artifact.states and "input_pos" in names and artifact.format is Format.LITERT:
        return LiteRTDecoder(artifact, batch, length)
    raise ArgValueError("artifact", f"must be the file of a decoder, see export_decoder. Received: {artifact.path}.")


def _session(path: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def _encode(path: Path, tokens: Tokens, mask: Tokens) -> dict[str, npt.NDArray[Any]]:
    """Returns the inputs of a decoder that follow from the text of its encoder.

    Raises:
        ValueError: If the file of the encoder is missing, or refuses the text.
    """
    if not path.is_file():
        raise ArgValueError("artifact", f"must have the file of its encoder beside it. Received: no file {path}.")
    session = _session(path)
    names = [each.name.replace("present", "past_key_values") for each in session.get_outputs()]
    try:
        rows = session.run(None, {"input_ids": tokens, "attention_mask": mask})
    except Exception as error:  # the runtime has its own exception types
        rule = "must be a text that the encoder takes, with tokens of its vocabulary and no more than its positions"
        received = f"{tokens.shape[1]} tokens, from {tokens.min()} to {tokens.max()}"
        raise ArgValueError("prompt", f"{rule}. Received: {received}: {first_line(error)}") from error
    return {_ENCODER_MASK: mask, **dict(zip(names, rows, strict=True))}


class OnnxDecoder:
    """The file of a decoder in a session of ONNX Runtime that keeps the keys and values of earlier calls.

    The cache stays in the runtime's memory. A shared cache is the input and the output of each call, so that a call
    writes its own rows alone.

    Attributes:
        cache: The keys and values, as ONNX Runtime's values by the name of the input.
    """

    def __init__(
        self,
        session: Any,
        states: Sequence[State],
        cache: Mapping[str, npt.NDArray[Any]],
        context: Mapping[str, npt.NDArray[Any]] | None = None,
    ) -> None:
        """Begins a text.

        Args:
            session: The session.
            states: The inputs and outputs of the cache.
            cache: The keys and values before the first call, by the name of the input.
            context: The inputs that are equal in all calls.
        """
        import onnxruntime

        self._session, self._states = session, states
        self.cache, self._context = (
            {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
            for arrays in (cache, context or {})
        )

    def step(self, tokens: Tokens, mask: Tokens) -> npt.NDArray[Any]:
        """Returns the logits of the next tokens, `[batch, length, vocabulary]`, and keeps their keys and values.

        Args:
            tokens: The tokens, `[batch, length]`.
            mask: 1 for a token and 0 for padding, of the earlier tokens too, `[batch, total]`.
        """
        binding = self._session.io_binding()
        binding.bind_cpu_input("input_ids", tokens)
        binding.bind_cpu_input("attention_mask", mask)
        for name, value in self._context.items():
            binding.bind_ortvalue_input(name, value)
        for state in self._states:
            past = self.cache[state.input]
            binding.bind_ortvalue_input(state.input, past)
            if state.is_shared:
                binding.bind_ortvalue_output(state.output, past)
            else:
                binding.bind_output(state.output)
        binding.bind_output("logits")
        self._session.run_with_iobinding(binding)
        *present, logits = binding.get_outputs()
        if not any(state.is_shared for state in self._states):  # a shared cache stays in the arrays of `cache`
            self.cache = dict(zip(self.cache, present, strict=True))
        return np.asarray(logits.numpy())


class LiteRTDecoder:
    """The file of a decoder in LiteRT's interpreter, whose signatures take calls of a few lengths."""

    def __init__(self, artifact: Artifact, batch: int, length: int) -> None:
        """Opens the file; see `open_decoder`."""
        require("generate", "ai_edge_litert", extra="litert")
        from ai_edge_litert.interpreter import Interpreter

        longest = int(artifact.states[0].shape[2])
        if batch != 1 or length > longest:
            rule = f"must be one prompt, which has at most {longest} tokens with its continuation, for a LiteRT file."
            raise ArgValueError("prompt", f"{rule} Received: {batch} of up to {length}.")
        interpreter = Interpreter(str(artifact.path))
        runners = [interpreter.get_signature_runner(key) for key in interpreter.get_signature_list()]
        counts = [int(runner.get_input_details()["input_pos"]["shape"][0]) for runner in runners]
        self._runners = dict(sorted(zip(counts, runners, strict=True), reverse=True))
        self._cache: dict[str, Any] = artifact.initial_state()
        self._end = 0

    def step(self, tokens: Tokens, mask: Tokens) -> npt.NDArray[Any]:
        """Returns the logits of the next tokens, `[1, length, vocabulary]`, and keeps their keys and values.

        Args:
            tokens: The tokens, `[1, length]`, in calls as long as possible.
            mask: Ones, since a text has no padding.
        """
        found, tokens = [], tokens.astype("int32")
        while tokens.shape[1]:
            count = next(count for count in self._runners if count <= tokens.shape[1])
            positions = np.arange(self._end, self._end + count, dtype="int32")
            outputs = self._runners[count](tokens=tokens[:, :count], input_pos=positions, **self._cache)
            self._cache = {name: outputs[name] for name in self._cache}
            found.append(outputs["logits"])
            tokens, self._end = tokens[:, count:], self._end + count
        return np.concatenate(found, axis=1)
