"""keras-hub: its transformer layers, and its backbones at a fraction of their size."""

import functools

import keras
import keras_hub

import keras_pe
from tests.export.zoo.entry import Entry

_SMALL = {"vocabulary_size": 30, "num_layers": 2, "hidden_dim": 16, "intermediate_dim": 32}
_HEADS = _SMALL | {"num_heads": 2}
_GROUPED = _SMALL | {"num_query_heads": 4, "num_key_value_heads": 2}
_SHORT = _HEADS | {"max_sequence_length": 32}


def _backbone(name, **config):
    return Entry(functools.partial(getattr(keras_hub.models, f"{name}Backbone"), **config), integers=30)


def _stack(*layers):
    x = y = keras.Input((None, 16), name="x")
    for layer in layers:
        y = layer(y)
    return keras.Model(x, y)


def _decoder():
    x, memory = keras.Input((None, 16), name="x"), keras.Input((None, 16), name="memory")
    return keras.Model([x, memory], keras_hub.layers.TransformerDecoder(32, 2)(x, memory))


_WHISPER = {"max_encoder_sequence_length": 64, "max_decoder_sequence_length": 32}
_ELECTRA = {key: value for key, value in _SHORT.items() if key != "vocabulary_size"} | {"vocab_size": 30}

ENTRIES = {
    "transformer encoder": Entry(
        lambda: _stack(keras_pe.SinusoidalPositionEncoding(), keras_hub.layers.TransformerEncoder(32, 2))
    ),
    "transformer encoder gelu": Entry(lambda: _stack(keras_hub.layers.TransformerEncoder(32, 2, activation="gelu"))),
    "transformer decoder": Entry(_decoder),
    "sine position encoding": Entry(lambda: _stack(keras_hub.layers.SinePositionEncoding())),
    "rotary embedding": Entry(lambda: _stack(keras_hub.layers.RotaryEmbedding())),
    "fnet encoder": Entry(lambda: _stack(keras_hub.layers.FNetEncoder(32))),
    "Bert": _backbone("Bert", **_SHORT),
    "DistilBert": _backbone("DistilBert", **_SHORT),
    "Roberta": _backbone("Roberta", **_SHORT),
    "Bart": _backbone("Bart", **_SHORT),
    "T5": _backbone("T5", **_HEADS),
    "GPT2": _backbone("GPT2", **_SHORT),
    "Whisper": _backbone("Whisper", **_HEADS, num_mels=8, **_WHISPER),
    "Gemma": _backbone("Gemma", **_GROUPED, head_dim=4),
    "Llama": _backbone("Llama", **_GROUPED),
    "Mistral": _backbone("Mistral", **_GROUPED, sliding_window=5),
    "DebertaV3": _backbone("DebertaV3", **_SHORT, bucket_size=8),
    "Electra": _backbone("Electra", **_ELECTRA, embedding_dim=8),
    "Albert": _backbone("Albert", **_SHORT, embedding_dim=8),
    "OPT": _backbone("OPT", **_SHORT),
    "Bloom": _backbone("Bloom", **_HEADS),
}
