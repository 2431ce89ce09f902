"""Measures decoders: the time of a step by the length of its cache, and the tokens a second of whole generations.

The contestants of a step are our two files and graphs that are made by hand of ONNX Runtime's own fused operators. A
generation has Keras' `generate` on TensorFlow and onnxruntime-genai as well, if the package is installed. All of them
take turns in one process.

The environment variable KERAS_PE_GENAI_PYTHON is the path of a Python with PyTorch, transformers and onnxruntime-genai.
There the builder of onnxruntime-genai makes the same architecture, which is one more contestant.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.measuring import Run, time_in_turns, time_openings

SIZES = {"vocabulary_size": 8000, "num_layers": 4, "hidden_dim": 512, "intermediate_dim": 1408}
HEADS = {"num_query_heads": 8, "num_key_value_heads": 4}
CHANNELS = SIZES["hidden_dim"] // HEADS["num_query_heads"]
LENGTHS = (128, 512, 1024, 2048, 4096)
PROMPT, NEW = 32, 96
OURS: tuple[Literal["growing", "shared"], ...] = ("growing", "shared")
BY_HAND, GROWING, BUILDER, BUILT = "by hand", "by hand, growing", "its builder", "the builder's file"
BUILDER_PYTHON = os.environ.get("KERAS_PE_GENAI_PYTHON")


def measure(threads: int) -> dict[str, Any]:
    """Returns the seconds of each run by `decoder step, length, threads/contestant` and `decoder text, threads/...`."""
    from benchmarks.speed.in_onnxruntime import session as open_session  # with Keras, which rendering does not need

    label = name_of(threads)
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        model = _model()
        files = _files(model, Path(folder))
        _compare({name: open_session(file, threads) for name, file in files.items()})

        def opener(make: Callable[..., Run], file: Path, *given: int) -> Callable[[], Run]:
            return lambda: make(open_session(file, threads), *given)

        for length in LENGTHS:
            steps = {name: opener(_step, file, length) for name, file in files.items()}
            taken = time_openings(steps, rounds=32, most_seconds=3.0)
            seconds |= {f"decoder step, {length}, {label}/{name}": taken[name] for name in steps}
        texts = {name: opener(_text, file) for name, file in files.items()}
        for is_xla in (False, True):
            texts[f"Keras generate{', XLA' * is_xla}"] = _always(_generate_in_keras(model, is_xla))
        folders: dict[str, Path] = {name: files[name].parent for name in OURS}
        if BUILDER_PYTHON is not None:
            folders[BUILDER] = _build(Path(folder) / BUILDER)
            texts[BUILT] = opener(_text, folders[BUILDER] / "model.onnx")
        if find_spec("onnxruntime_genai") is not None:
            for name, each in folders.items():
                texts[f"onnxruntime-genai, {name}"] = partial(_generate_in_genai, each, threads)
        taken = time_openings(texts, rounds=12, most_seconds=12.0, openings=4)
        seconds |= {f"decoder text, {label}/{name}": taken[name] for name in texts}
    left_out = [] if find_spec("onnxruntime_genai") else ["Decoders: onnxruntime-genai was not installed."]
    left_out += [] if BUILDER_PYTHON else ["Decoders: no Python with the builder of onnxruntime-genai was given."]
    return {"seconds": seconds, "left out": left_out}


def name_of(threads: int) -> str:
    """Returns the number of threads in words of the table."""
    return f"{threads} thread{'s' * (threads > 1)}"


def measure_keras() -> list[float]:
    """Returns the seconds of generations in Keras on the backend of this process."""
    return time_in_turns({"": _generate_in_keras(_model(), is_xla=True)}, rounds=7, most_seconds=12.0)[""]


def _model() -> Any:
    import keras
    import keras_hub

    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.LlamaBackbone(**SIZES, **HEADS)
    return keras_hub.models.LlamaCausalLM(backbone=backbone, preprocessor=None)


def _files(model: Any, folder: Path) -> dict[str, Path]:
    """Writes the file of each contestant."""
    from benchmarks.decoder_by_hand import write_llama
    from keras_pe.export import export_decoder

    files = {BY_HAND: folder / "by_hand.onnx", GROWING: folder / "growing.onnx"}
    for name, file in files.items():
        write_llama(model, file, max(LENGTHS), is_shared=name != GROWING)
    for own in OURS:
        files[own] = export_decoder(model, folder / own, end_tokens=[0], cache=own).path
    return files


def _compare(opened: Mapping[str, Any]) -> None:
    """Raises AssertionError unless all sessions return the same logits: others would not be contestants."""
    mask = np.ones((1, PROMPT), "int64")
    first, *others = [_open(session, 0, PROMPT).step(_prompt(), mask) for session in opened.values()]
    for logits in others:
        np.testing.assert_allclose(logits, first, atol=1e-3)


def _open(session: Any, rows: int, longest: int) -> Any:
    """Returns a decoder with so many rows in its cache, or with as many as the longest text in a shared cache."""
    from keras_pe.export.artifacts.state import State
    from keras_pe.export.decoders.running_decoder import OnnxDecoder

    presents = {each.name: each.shape for each in session.get_outputs()}
    states, cache = [], {}
    for past in session.get_inputs():
        if past.name.startswith("past"):
            present = past.name.replace("past_key_values", "present")
            batch, heads, length, _ = past.shape
            is_shared = presents[present][2] == length
            states.append(
                State(past.name, present, (batch, heads, length if is_shared else 0, CHANNELS), "float32", 0.0)
            )
            shape = (1, heads, longest if is_shared else rows, CHANNELS)
            cache[past.name] = np.random.default_rng(0).standard_normal(shape).astype("float32")
    return OnnxDecoder(session, states, cache)


def _always(run: Run) -> Callable[[], Run]:
    return lambda: run


def _step(session: Any, length: int) -> Run:
    """Returns a step whose token is the last of so many."""
    decoder = _open(session, length - 1, max(LENGTHS))
    token, mask, first = np.array([[5]]), np.ones((1, length), "int64"), decoder.cache

    def run() -> None:
        decoder.cache = first  # a growing cache would have one row more in each run
        decoder.step(token, mask)

    return run


def _text(session: Any) -> Run:
    """Returns a generation of the most likely tokens."""

    def run() -> None:
        decoder, tokens = _open(session, 0, PROMPT + NEW), _prompt()
        for total in range(PROMPT, PROMPT + NEW):
            tokens = decoder.step(tokens, np.ones((1, total), "int64"))[:, -1:].argmax(-1)

    return run


def _prompt() -> Any:
    return np.arange(1, PROMPT + 1)[None]


def _generate_in_keras(model: Any, is_xla: bool) -> Run:
    own = type(model)(backbone=model.backbone, preprocessor=None)  # a model has one compiled function
    own.compile(sampler="greedy", jit_compile=is_xla)
    mask = np.arange(PROMPT + NEW)[None] < PROMPT
    ids = np.where(mask, np.arange(PROMPT + NEW) + 1, 0).astype("int32")
    return partial(own.generate, {"token_ids": ids, "padding_mask": mask}, stop_token_ids=None)


def _generate_in_genai(folder: Path, threads: int) -> Run:
    import onnxruntime_genai

    file = folder / "genai_config.json"
    content = json.loads(file.read_text())
    content["model"]["decoder"]["session_options"] |= {"intra_op_num_threads": threads}
    file.write_text(json.dumps(content))
    model = onnxruntime_genai.Model(str(folder))

    def run() -> None:
        parameters = onnxruntime_genai.GeneratorParams(model)
        parameters.set_search_options(max_length=PROMPT + NEW, min_length=PROMPT + NEW)
        generator = onnxruntime_genai.Generator(model, parameters)
        generator.append_tokens(_prompt().astype("int32"))
        while not generator.is_done():
            generator.generate_next_token()

    return run


def _build(folder: Path) -> Path:
    """Returns the folder, with the model that the builder of onnxruntime-genai has made with random weights."""
    sizes = {
        "vocab_size": SIZES["vocabulary_size"],
        "num_hidden_layers": SIZES["num_layers"],
        "hidden_size": SIZES["hidden_dim"],
        "intermediate_size": SIZES["intermediate_dim"],
        "num_attention_heads": HEADS["num_query_heads"],
        "num_key_value_heads": HEADS["num_key_value_heads"],
        "max_position_embeddings": max(LENGTHS),
    }
    script = Path(__file__).with_name("genai_builder.py")
    other = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given = [str(BUILDER_PYTHON), "-P", str(script), str(folder), json.dumps(sizes)]
    subprocess.run(given, check=True, env=other, stdout=sys.stderr)
    return folder
