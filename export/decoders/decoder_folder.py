"""The exporter of decoders: a folder with a graph, its weights, its configuration and the files of its tokenizer."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from keras_pe.argument_errors import ArgValueError, check_path
from keras_pe.export.artifacts.artifact import Artifact, Format
from keras_pe.export.artifacts.read_artifact import artifact_files
from keras_pe.export.decoders.genai_config import GENAI_CONFIG, checked_tokens, genai_config
from keras_pe.export.decoders.running_decoder import DECODER, ENCODER
from keras_pe.export.decoders.tokenizer_files import TOKENIZER_FILES, tokenizer_files
from keras_pe.export.errors import check_whole
from keras_pe.export.exporters import export_onnx
from keras_pe.export.onnx.file_writer import share_weights
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.pipeline.request import Request
from keras_pe.export.publishing.destination import check_destination
from keras_pe.export.publishing.staging import keep_other_files, publish_folder, staged_artifact
from keras_pe.protocols import Model

_DECODER_ALONE = "model.onnx"
_SHARED_WEIGHTS = "shared_weights"
_State = Literal["cache", "shared_cache", "encoder"]
_CACHE_FORMS: dict[str, tuple[_State, int]] = {
    "growing": ("cache", opsets.DEFAULT),
    "shared": ("shared_cache", opsets.SCATTER_VERSION),
}


def export_decoder(
    model: Model | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    end_tokens: Sequence[int] | None = None,
    start_token: int | None = None,
    padding_token: int | None = None,
    context_length: int | None = None,
    cache: Literal["growing", "shared"] = "growing",
    opset_version: int | None = None,
    half_precision: bool = False,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a causal language model to a folder that onnxruntime-genai runs.

    The graph takes prompts and single tokens. Its inputs are `input_ids` and `attention_mask`, `[batch, length]` and
    `[batch, past + length]`, and the keys and values of earlier tokens, `past_key_values.N.key` and
    `past_key_values.N.value`, `[batch, heads, past, channels]`. It returns the `logits` of each token, and all keys and
    values as `present.N.key` and `present.N.value`. The mask is 0 at padding, and positions follow from it. The
    weights are in one file beside the graph.

    A growing cache runs everywhere, and each call copies it. A shared cache, `[batch, heads, max_length, channels]`,
    has rows for every token of a text. A call writes its own rows, and the rows behind them hold no numbers. Bind each
    `past_key_values` and its `present` to one array, and the cache is in memory once. The file needs ONNX Runtime.

    A model with an encoder, such as keras-hub's T5 and Bart, has two graphs, `encoder.onnx` and `decoder.onnx`.
    `encoder.onnx` takes the `input_ids` and `attention_mask` of a text, and returns its keys and values in each layer
    of the decoder, as `present.N.encoder.key` and `present.N.encoder.value`. `decoder.onnx` takes them in each call, as
    `past_key_values.N.encoder.key` and `.value`, beside `encoder_attention_mask`. Its own cache is called
    `past_key_values.N.decoder.key` and `.value`. Both graphs read one file of shared weights, such as the table of
    tokens. The folder has no configuration, because onnxruntime-genai has no type for such a model.

    Beside `model.onnx` the folder has `genai_config.json` and the files of keras-hub's tokenizer: `tokenizer.json` and
    `tokenizer_config.json`, and `tokenizer.model` for SentencePiece. The files of a tokenizer without such a form are
    absent. One rename replaces the whole folder. If the export fails, the previous folder is unchanged. The folder
    around it must be writable, because the new folder is written there.

    A decoder is published after calls with a cache have returned the logits of the uncached model, in Keras and in ONNX
    Runtime. `export_onnx(model, filepath, state="cache")` or `state="shared_cache"` writes the same graph without the
    configuration.

    Args:
        model: A causal language model of keras-hub, with an encoder or without; or a model with `step` and
            `cache_shapes`, see `keras_pe.protocols.CachedModel`. A path is accepted too, see `export_onnx`.
        folder: The folder to write to, which is neither the working folder nor around it. Its other files stay. If the
            model has a tokenizer, the files of an earlier tokenizer are removed.
        end_tokens: The tokens that end a text. This and the next three arguments are for onnxruntime-genai: a model
            with an encoder does not take them. By default the tokenizer's.
        start_token: The token before a text. By default the tokenizer's, or else the first end token.
        padding_token: The token of padding. By default the tokenizer's, or else the first end token.
        context_length: The largest number of tokens of a prompt and its continuation. By default the model's own.
        cache: Whether the arrays of keys and values grow from call to call, or are shared by all calls.
        opset_version: See `export_onnx`. By default 18, or 24 for a shared cache, which needs it.
        half_precision, progress: See `export_onnx`.

    Returns:
        The artifact of the decoder. `Artifact.initial_state` returns the empty cache; `keras_pe.export.generate` runs
        it.

    Raises:
        ExportError, FileExistsError, ImportError, TypeError: See `export_onnx`.
        OSError: If `folder` or the folder around it cannot be written.
        ValueError: If an argument is wrong, the model has an unknown form, or no end token is known.
    """
    if cache not in tuple(_CACHE_FORMS):
        raise ArgValueError("cache", f"must be one of: {', '.join(_CACHE_FORMS)}. Received: cache={cache!r}.")
    state, opset = _CACHE_FORMS[cache]
    check_path("folder", folder)
    if Path(folder).is_file():
        raise NotADirectoryError(f"`folder` must be a folder. Received: {str(folder)!r}, which is a file.")
    destination = check_destination(Path(folder) / _DECODER_ALONE, Format.ONNX)
    place = destination.parent.resolve()
    if place.is_mount() or Path.cwd().is_relative_to(place):
        rule = "must be neither a mount point nor contain the working folder, since a rename replaces it."
        raise ArgValueError("folder", f"{rule} Received: folder={str(folder)!r}. Name a folder inside it.")
    opened = Request(model, destination, state=state, progress=progress).load_model_file()
    from keras_pe.export.model.language_model import check_language_model, has_encoder, longest_text  # imports Keras

    check_language_model(opened)
    special = (end_tokens, start_token, padding_token, context_length)
    if context_length is not None:
        check_whole("context_length", context_length, 1, longest_text(opened))
    tokens = None if has_encoder(opened) else checked_tokens(opened, *special)
    names = ("end_tokens", "start_token", "padding_token", "context_length")
    for name, value in zip(names, special, strict=True):
        if tokens is None and value is not None:
            rule = "must be left out for a model with an encoder, which onnxruntime-genai has no configuration for."
            raise ArgValueError(name, f"{rule} Received: {name}={value!r}.")
    parts: dict[str, _State] = {_DECODER_ALONE: state} if tokens else {ENCODER: "encoder", DECODER: state}
    with staged_artifact(place) as staged:
        for name, part in parts.items():
            artifact = export_onnx(
                opened,
                staged / name,
                state=part,
                opset_version=opset if opset_version is None else opset_version,
                external_data_threshold=0,
                half_precision=half_precision,
                progress=progress,
            )
        if tokens is None:
            share_weights([staged / name for name in parts], _SHARED_WEIGHTS)
            artifact = replace(artifact, nbytes=sum(file.stat().st_size for file in artifact_files(artifact.path)))
        preprocessor = getattr(opened, "preprocessor", None)
        files = tokenizer_files(preprocessor)
        if tokens is not None:
            files |= {GENAI_CONFIG: genai_config(opened, artifact, tokens).encode()}
        for name, content in files.items():
            (staged / name).write_bytes(content)
        has_tokenizer = getattr(preprocessor, "tokenizer", None) is not None
        replaced = (*parts, *(() if tokens else (_SHARED_WEIGHTS,)), *(TOKENIZER_FILES if has_tokenizer else ()))
        keep_other_files(place, staged, replaced)
        publish_folder(staged, place)
    return replace(artifact, path=destination.with_name(artifact.path.name))
