"""The public exporters: one function for each format. The error of a file that disagrees with Keras names the cause."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from keras_pe.argument_errors import ArgValueError
from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.comparison.inputs.cases import GivenInputs
from keras_pe.export.errors import check_type, check_whole
from keras_pe.export.formats.litert import litert_format
from keras_pe.export.formats.litert_signatures import check_size_sets, export_signatures
from keras_pe.export.formats.litert_targets import TARGETS
from keras_pe.export.formats.saved_model import saved_model_format
from keras_pe.export.model.border import Border, decoder_lengths
from keras_pe.export.onnx.exporter import SELF_CONTAINED, onnx_format
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.parity.export_explanation import explain
from keras_pe.export.pipeline.request import Request
from keras_pe.export.pipeline.stages import export
from keras_pe.protocols import Model


def export_onnx(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    state: Literal["arguments", "cache", "shared_cache", "encoder"] | None = None,
    seed: Literal["argument"] | None = None,
    opset_version: int = opsets.DEFAULT,
    external_data_threshold: int = SELF_CONTAINED,
    half_precision: bool = False,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to ONNX.

    The file is published after ONNX's checker and strict shape inference have passed. ONNX Runtime must also return
    Keras' outputs, at sizes that were not traced. If the export fails, the previous file at `filepath` is unchanged.

    Args:
        model: A built `keras.Model`, or the path of a `.keras` or `.h5` file of one. A JAX or PyTorch model is saved,
            and a subprocess exports it on TensorFlow; the subprocess must be able to import the layers.
        filepath: The `.onnx` file to write. The name must not end like a file of another format.
        input_signature: See `model_signature`; needed for most subclassed models. A size that is free in it stays free.
            Without it, a size is fixed if Keras cannot trace the model with that size free; a note says so.
        sizes: The sizes that a dynamic dimension takes, by its name, such as `{"height": (64, 224)}`. By default the
            exporter searches for them. A dimension with one size is fixed in the artifact.
        inputs: One or several examples of the inputs, for a model that does not accept arbitrary values: mappings of
            names to arrays, or `.npz` files. The export compares outputs on the examples. The artifact records them for
            `check_parity`.
        ranges: The valid range of an input, by name: the least value, and the end, which is not valid itself. The
            artifact records the ranges for `check_parity`.
        border: An input/output adapter around the model: another layout or dtype, preprocessing of inputs, a selection
            of outputs, or decisions on them. `sizes`, `inputs` and `ranges` then describe the artifact. The artifact
            records the adapter for checks.
        state: "arguments" makes each variable that a call assigns an input and an output, such as `lstm_state_h` and
            `lstm_state_h_out`. `Artifact.initial_state` returns the values before the first call. The batch becomes
            free if the rows are independent. By default a model with state has no ONNX or LiteRT form. "cache" makes
            the keys and values of a causal language model inputs and outputs, see `export_decoder`; "shared_cache" does
            so with arrays that do not grow. "encoder" writes the encoder of such a model, whose outputs are the keys
            and values of a text.
        seed: "argument" makes the state of each generator of random numbers an input and an output, such as
            `noise_seed` and `noise_seed_out`: int64, `[2]`. The file draws the numbers that Keras draws on TensorFlow.
            ONNX needs opset 18. By default a model that draws numbers has no ONNX or LiteRT form.
        opset_version: The ONNX operator set, 15 to 25.
        external_data_threshold: The bytes of weights above which the weights are written to a second file, named
            `<file>.<hash of its content>.data`. Up to this size, one file contains everything.
        half_precision: Whether to export in float16, which has a smaller range than bfloat16. By default a model in
            float16 or bfloat16 is exported as a float32 rebuild with the same weights. A note of the artifact reports
            the rebuild.
        progress: A function that is called with the name of each stage when it starts; True shows a bar.

    Returns:
        The written artifact.

    Raises:
        ExportError: If the model cannot be exported correctly. The subclass states the reason; the attributes name
            the layer and the operator.
        ValueError: If an argument is wrong, or the signature is unknown.
        TypeError: If an argument is of another type.
        FileExistsError: If something that is not an ONNX file stands at `filepath`.
        ImportError: If a package is missing.
    """
    check_whole("opset_version", opset_version, opsets.EXPORTED[0], opsets.EXPORTED[-1])
    check_whole("external_data_threshold", external_data_threshold, 0)
    check_type("half_precision", half_precision, bool)
    if "shared_cache" in (state, getattr(border, "state", None)) and opset_version < opsets.SCATTER_VERSION:
        rule = f"must be at least {opsets.SCATTER_VERSION} for a shared cache, whose rows TensorScatter writes."
        raise ArgValueError("opset_version", f"{rule} Received: opset_version={opset_version!r}.")
    request = Request(model, filepath, input_signature, sizes, inputs, ranges, border, state, seed, progress)
    return export(onnx_format(opset_version, external_data_threshold, half_precision), request, explain)


def export_saved_model(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    state: Literal["arguments"] | None = None,
    seed: Literal["argument"] | None = None,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to a SavedModel with the signature `serving_default`.

    The folder is published after TensorFlow has loaded it, without the code of any layer, and has returned Keras'
    outputs. If the outputs of a call depend on earlier calls, the folder must only run. If the export fails, the
    previous folder at `filepath` is unchanged.

    Args:
        model: See `export_onnx`.
        filepath: The folder to write. The name must not end like a file of another format.
        input_signature, sizes, inputs, ranges, border, state, seed, progress: See `export_onnx`.

    Returns:
        The written artifact.

    Raises:
        ExportError: If the model cannot be exported correctly.
        ValueError: If an argument is wrong, or the signature is unknown.
        TypeError: If an argument is of another type.
        FileExistsError: If something that is not a SavedModel stands at `filepath`.
        ImportError: If a package is missing.
    """
    kind = getattr(border, "state", None) if state is None else state
    if kind not in (None, "arguments"):
        way_out = "Use export_onnx, or export_litert with state='shared_cache'."
        raise ArgValueError(
            "state", f"must be 'arguments' for a SavedModel, or left out. Received: {kind!r}. {way_out}"
        )
    request = Request(model, filepath, input_signature, sizes, inputs, ranges, border, state, seed, progress)
    return export(saved_model_format(), request, explain)


def export_litert(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | Sequence[Mapping[str, Sequence[int]]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    state: Literal["arguments", "shared_cache"] | None = None,
    seed: Literal["argument"] | None = None,
    target: Literal["gpu", "npu", "web", "micro"] | None = None,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to LiteRT. A model of half precision is exported as a float32 rebuild.

    The file is published after LiteRT's interpreter, with only its built-in operators, has returned Keras' outputs. If
    the export fails, the previous file at `filepath` is unchanged.

    Args:
        model: See `export_onnx`.
        filepath: The `.tflite` file to write. The name must not end like a file of another format.
        input_signature, sizes, inputs, ranges, border, seed, progress: See `export_onnx`.
        state: See `export_onnx`. "shared_cache" writes a causal language model with signatures of LiteRT-LM: `decode`
            takes one token, and `prefill_N` takes N tokens. `sizes` has the lengths of the cache and of these calls:
            `{"max_sequence_length": 1024, "sequence_length": (32, 256)}`. Inputs are `tokens` `[1, N]`, `input_pos`
            `[N]`, and `kv_cache_k_L` and `kv_cache_v_L` `[1, heads, max_sequence_length, channels]`. Outputs are
            `logits` and the caches with the same names.
        target: The device that runs the file: the GPU or NPU of a phone, WebGPU of a browser, or a microcontroller.
            Every size is then fixed, the batch at 1 unless `sizes` sets it. Operators that the device does not take
            are rewritten. By default the file suits LiteRT on a CPU. With a target, `sizes` may be a list of sets of
            sizes: the file then has a signature for each set, such as "length_64", over one copy of the weights.

    Returns:
        The written artifact.

    Raises:
        ExportError: If built-in operators cannot express the model. The message names the operator. With a `target`,
            also if the device does not take an operator; the message names its rule.
        ValueError: If an argument is wrong, or the signature is unknown.
        TypeError: If an argument is of another type.
        FileExistsError: If something that is not a LiteRT file stands at `filepath`.
        ImportError: If a package is missing.
    """
    if target is not None and target not in tuple(TARGETS):  # a list has no hash
        raise ArgValueError("target", f"must be one of: {', '.join(TARGETS)}. Received: target={target!r}.")
    if state == "shared_cache":
        if target is not None:
            raise ArgValueError("target", f"must be left out for a shared cache. Received: target={target!r}.")
        lengths = decoder_lengths(None if isinstance(sizes, Sequence) else sizes)
        border, sizes = replace(border or Border(), state=state, lengths=lengths), None
    several = check_size_sets(sizes, target) if isinstance(sizes, Sequence) else []
    one = None if isinstance(sizes, Sequence) else sizes
    request = Request(
        model,
        filepath,
        input_signature,
        one,
        inputs,
        ranges,
        border,
        state,
        seed,
        progress,
        fixes_all=target is not None,
    )
    if not several:
        return export(litert_format(target), request, explain)
    request = replace(request, model=request.load_model_file())
    return export_signatures(
        lambda path, own: export(litert_format(target), replace(request, filepath=path, sizes=own), explain),
        filepath,
        several,
    )
