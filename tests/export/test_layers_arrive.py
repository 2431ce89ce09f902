"""Every way to call the layers arrives in ONNX Runtime, a SavedModel and LiteRT, by the package's own check."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import keras
import numpy as np
import pytest

from keras_pe import (
    AlibiBias,
    ContinuousPositionBias,
    Coordinates,
    FourierFeatures,
    GridPositionBias,
    GridPositionEmbedding,
    LearnedPositionEmbedding,
    RelativePositionBias,
    RelativePositionEmbedding,
    RotaryPositionEncoding,
    SinusoidalPositionEncoding,
    TimestepEmbedding,
    from_convention,
    tensor2tensor,
)
from keras_pe.conventions import CONVENTIONS
from keras_pe.export import check_parity, export_litert, export_onnx, export_saved_model
from keras_pe.export.errors import RuntimeFailedError
from keras_pe.export.model.sizes.dimensions import SizeRange, dimensions_from_json
from keras_pe.export.runtimes.worker import Worker
from keras_pe.signal.coordinates import Place
from tests.export.runtimes.external.present import need

MATRIX = np.random.default_rng(0).normal(size=(2, 12))
SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0, "max_position_embeddings": 64, "length": 128},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
    "longrope": {
        "short_factor": [1.0, 1.5, 2.0, 2.5],
        "long_factor": [1.0, 4.0, 9.0, 16.0],
        "original_max_position_embeddings": 16,
        "factor": 4.0,
    },
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "proportional": {"partial_rotary_factor": 0.5},
}
SCALINGS = {kind: {"rope_type": kind, **each} for kind, each in SCALINGS.items()}


def grid() -> keras.Model:
    images = keras.Input((None, None, 19), name="images")
    return keras.Model(images, SinusoidalPositionEncoding(start_index=[1, -2], layout="interleaved")(images))


def bounded_volume() -> keras.Model:
    volumes = keras.Input((None, None, None, 24), name="volumes")
    return keras.Model(volumes, SinusoidalPositionEncoding(max_length=[300, 300, 300])(volumes))


def coordinates() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    rows, columns = (keras.Input((None,), dtype="int32", name=name) for name in ("rows", "columns"))
    return keras.Model([x, rows, columns], SinusoidalPositionEncoding()(x, positions=[rows, columns]))


def fractional_positions() -> keras.Model:
    x, times = keras.Input((None, 16), name="x"), keras.Input((None,), name="times")
    return keras.Model([x, times], SinusoidalPositionEncoding(combine="concatenate")(x, positions=times))


def decoder_step() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    step = keras.Input(batch_shape=(None,), dtype="int32", name="step")
    return keras.Model([x, step], SinusoidalPositionEncoding(start_index=5)(x, start_index=step))


def learned_model() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    return keras.Model(x, LearnedPositionEmbedding(300)(x))


def learned_grid() -> keras.Model:
    images = keras.Input((None, None, 8), name="images")
    return keras.Model(images, LearnedPositionEmbedding([300, 300], initializer="sinusoidal")(images))


def ported_model() -> keras.Model:
    x = keras.Input((None, 16), name="x")
    y = tensor2tensor.add_layer_timing_signal_sinusoid_1d(x, 2, 6)
    y = tensor2tensor.add_layer_timing_signal_learned_1d(y, 3, 6)
    return keras.Model(x, tensor2tensor.add_timing_signal_1d(y, start_index=3))


def rotary() -> keras.Model:
    queries, keys = keras.Input((None, 4, 16), name="queries"), keras.Input((None, 1, 16), name="keys")
    step = keras.Input(batch_shape=(None,), dtype="int32", name="step")
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    layer = RotaryPositionEncoding(layout="interleaved", rotary_dim=8, scaling=yarn)
    return keras.Model([queries, keys, step], list(layer(queries, keys, start_index=step)))


def rotary_axes() -> keras.Model:
    x, image = keras.Input((None, 2, 24), name="x"), keras.Input((None, None, 2, 24), name="image")
    places = [keras.Input((None,), dtype="int32", name=name) for name in ("frame", "row", "column")]
    shared = [
        RotaryPositionEncoding(sections=sizes, shared_rates=True, interleave_sections=in_turns)(x, positions=places)
        for sizes, in_turns in (((6, 3, 3), False), ((4, 4, 4), True))
    ]
    of_image = [
        RotaryPositionEncoding(sequence_axis=(1, 2), layout=layout, max_length=bounds)(image)
        for layout, bounds in (("halves", None), ("interleaved_to_halves", [300, 300]))
    ]
    return keras.Model([x, image, *places], shared + of_image)


def rotary_scalings() -> keras.Model:
    x, step = keras.Input((None, 2, 8), name="x"), keras.Input(batch_shape=(None,), dtype="int32", name="step")
    outputs = {kind: RotaryPositionEncoding(scaling=each)(x, start_index=step) for kind, each in SCALINGS.items()}
    outputs["from_zero"] = RotaryPositionEncoding(scaling=SCALINGS["longrope"])(x)
    xpos = RotaryPositionEncoding(scaling={"rope_type": "xpos"}, max_length=300)
    outputs["xpos_queries"], outputs["xpos_keys"] = xpos(x, x)
    return keras.Model([x, step], outputs)


def rotary_rules() -> keras.Model:
    """Rates, directions, axes of pairs, blocks and factors of queries that families of models have."""
    x, places = keras.Input((None, 2, 8), name="x"), []
    for name in ("time", "row", "column"):
        places.append(keras.Input((None,), dtype="int32", name=name))
    outputs = {
        "dealt": RotaryPositionEncoding(timescales=[1.0, 30.0, 5.0, 1e5], sections=(2, 2))(x, positions=places[1:]),
        "inverse": RotaryPositionEncoding(direction=-1)(x, positions=places[0]),
        "alternating": RotaryPositionEncoding(axis_of_pair=[1, 2, 1, 0], shared_rates=True)(x, positions=places),
        "blocks": RotaryPositionEncoding(sections=(1, 2), split_sections=True, rotary_dim=6)(x, positions=places[:2]),
        "long": RotaryPositionEncoding(scaling=SCALINGS["longrope"], sections=(3, 1))(x, positions=places[:2]),
    }
    for name, further in {"steps": {}, "smooth": {"first_position": 1, "stepwise": False}}.items():
        layer = RotaryPositionEncoding(query_scaling={"scale": 0.1, "length": 7, **further})
        outputs[f"{name}_queries"], outputs[f"{name}_keys"] = layer(x, x, positions=places[0])
        outputs[f"{name}_from_zero"] = layer(x)
    return keras.Model([x, *places], outputs)


def image_arguments() -> keras.Model:
    images = keras.Input((None, None, 24), name="images")
    ways: list[dict[str, Any]] = [
        {"reverse_axes": True, "flatten": "columns"},
        {"blocks": "phase", "layout": "cosine_first", "scale": 0.5},
        *({"coordinates": Coordinates(-1.0, 6.25, at, 1e-6)} for at in get_args(Place)),
    ]
    outputs = [SinusoidalPositionEncoding(**each)(images) for each in ways]
    outputs.append(FourierFeatures(MATRIX)(images))
    outputs.append(FourierFeatures(MATRIX, reverse_axes=True, coordinates=Coordinates(-1.0, 1.0))(images))
    return keras.Model(images, outputs)


def flattened_images() -> keras.Model:
    tokens, patches = keras.Input((14, 24), name="tokens"), keras.Input((12, 24), name="patches")
    classes: list[dict[str, Any]] = [{}, {"flatten": "columns", "combine": "concatenate"}]
    outputs = [SinusoidalPositionEncoding(grid_shape=(3, 4), class_tokens=2, **each)(tokens) for each in classes]
    outputs.append(FourierFeatures(MATRIX, grid_shape=(3, 4), coordinates=Coordinates())(patches))
    return keras.Model([tokens, patches], outputs)


def places_and_times() -> keras.Model:
    x = keras.Input((None, 24), name="x")
    rows, columns = keras.Input((None,), name="rows"), keras.Input((None,), dtype="int32", name="columns")
    times, steps = keras.Input((), name="times"), keras.Input((), dtype="int32", name="steps")
    features = FourierFeatures(MATRIX)(x, positions=[rows, columns])
    embedded = TimestepEmbedding(16, True, 0, 1000.0)(times), TimestepEmbedding(17)(steps)
    return keras.Model([x, rows, columns, times, steps], [features, *embedded])


def biases() -> keras.Model:
    queries, keys = keras.Input((None, 4, 16), name="queries"), keras.Input((None, 4, 16), name="keys")
    step = keras.Input(batch_shape=(None,), dtype="int32", name="step")
    layers = (
        AlibiBias(4),
        RelativePositionBias(4),
        RelativePositionBias(4, bidirectional=False),
        RelativePositionBias(4, rule="deberta", num_buckets=8, max_distance=20),
        RelativePositionBias(4, rule="clipped", max_distance=9),
        RelativePositionEmbedding(4, 8),
        RelativePositionEmbedding(4, 8, share_heads=False),
    )
    return keras.Model([queries, keys, step], [layer(queries, keys, start_index=step) for layer in layers])


def resized_grids() -> keras.Model:
    """Tables of a grid for images of any size, tokens after class tokens, and tokens that are counted."""
    images, sound = keras.Input((None, None, 3), name="images"), keras.Input((None, 8), name="sound")
    patches = keras.layers.Conv2D(8, 2, strides=2)(images)
    tokens = keras.layers.ZeroPadding1D((2, 0))(keras.layers.Reshape((-1, 8))(patches))
    rules: list[dict[str, Any]] = [
        {"antialias": True},
        {"scale_offset": 0.1},
        {"interpolation": "bilinear", "align_corners": True},
    ]
    outputs = [GridPositionEmbedding((5, 7), **each)(patches) for each in rules]
    outputs += [GridPositionEmbedding((6, 6), class_tokens=2, **each)(tokens, grid=patches) for each in rules]
    outputs.append(GridPositionEmbedding((9,), interpolation="bilinear")(sound))
    return keras.Model([images, sound], outputs)


def window_biases() -> keras.Model:
    windows, tokens = keras.Input((12, 2, 8), name="windows"), keras.Input((None, 2, 8), name="tokens")
    places = [keras.Input((None,), dtype="int32", name=name) for name in ("row", "column")]
    outputs = [
        GridPositionBias(2, (3, 4))(windows),
        ContinuousPositionBias(2, (3, 4), pretrained_grid_shape=(2, 2))(windows),
        GridPositionBias(2, (30, 40))(tokens, positions=places),
        ContinuousPositionBias(2, (30, 40), units=8)(tokens, positions=places),
    ]
    return keras.Model([windows, tokens, *places], outputs)


def every_convention() -> keras.Model:
    x = keras.Input((None, 24), name="x")
    signals = {}
    for name, each in CONVENTIONS.items():
        if each.axes == 1:
            matrix = {} if each.schedule else {"matrix": MATRIX[:1]}
            signals[name] = from_convention(name, 24, name=name, **matrix)(x)
    return keras.Model(x, signals)


FORMATS: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "onnx": (export_onnx, "model.onnx", ("onnxruntime[all]", "onnxruntime[disabled]")),
    "saved_model": (export_saved_model, "saved_model", ("tensorflow",)),
    "litert": (export_litert, "model.tflite", ("litert",)),
}
WAYS = (
    *(grid, bounded_volume, coordinates, fractional_positions, decoder_step, learned_model, learned_grid, ported_model),
    *(every_convention, rotary, rotary_axes, rotary_scalings, rotary_rules, image_arguments, flattened_images),
    places_and_times,
    biases,
    *(resized_grids, window_biases),
)
# A SavedModel and a LiteRT file have one trace: where that is long, one of them is enough but for an exhaustive run.
ONE_IS_ENOUGH = {
    "litert": WAYS[: WAYS.index(rotary)],
    "saved_model": WAYS[WAYS.index(rotary_axes) : WAYS.index(biases)],
}


@pytest.mark.slow_rows(6)
@pytest.mark.parametrize(
    ("kind", "build"),
    [
        pytest.param(
            kind,
            build,
            marks=pytest.mark.exhaustive if build in ONE_IS_ENOUGH.get(kind, ()) else pytest.mark.slow,
            id=f"{kind}-{build.__name__}",
        )
        for kind in FORMATS
        for build in WAYS
    ],
)
def test_the_file_says_what_keras_says(tmp_path: Path, kind: str, build: Callable[[], keras.Model]) -> None:
    keras.utils.set_random_seed(0)
    model, (export, name, runtimes) = build(), FORMATS[kind]
    report = check_parity(model, export(model, tmp_path / name), runtimes=[runtimes[0].partition("[")[0]])
    assert report.passed, str(report)


def test_a_learned_table_shorter_than_its_input_is_told_and_fails_in_onnx_runtime(tmp_path: Path) -> None:
    import onnxruntime as ort

    x = keras.Input((None, 16), name="x")
    artifact = export_onnx(keras.Model(x, LearnedPositionEmbedding(20)(x)), tmp_path / "model.onnx")
    assert dimensions_from_json(artifact.metadata["keras_pe.sizes"])["length"].sizes == SizeRange(1, 1, 20)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(tmp_path / "model.onnx", options)
    assert session.run(None, {"x": np.zeros((2, 20, 16), "float32")})[0].shape == (2, 20, 16)
    with pytest.raises(Exception, match="Reshape"):
        session.run(None, {"x": np.zeros((2, 21, 16), "float32")})


# Layers at explicit positions: their call, the positions within reach, and the positions out of reach.
FAR, TABLE = [2**24, -(2**24) - 1, 2**31 - 1], [100, 101, -1, -100, 2**24]
DISTANT = [2**29, -(2**29), 2**31 - 1, -(2**31)]
APART = [100, -100, 2**24, *DISTANT]


def apart_in_a_window(layer: keras.layers.Layer, x: Any, position: Any) -> Any:
    """Returns the bias of the first place of a window and of another one in the same row."""
    zero = keras.ops.zeros_like(position)
    columns = keras.ops.concatenate([zero, position], axis=1)
    rows = keras.ops.zeros_like(columns)
    return layer(keras.ops.concatenate([x, x], axis=1), positions=[rows, columns])[:, :, :1, 1:]


REACHES: dict[str, tuple[Callable[..., Any], str, float, list[float]]] = {
    "far": (lambda x, p: RotaryPositionEncoding()(x, positions=p), "int32", 2**24 - 1, FAR),
    "table": (lambda x, p: RotaryPositionEncoding(max_length=100)(x, positions=p), "int32", 99, TABLE),
    "start": (lambda x, p: RotaryPositionEncoding(max_length=100)(x, start_index=p[:, 0]), "int32", 99, TABLE),
    "axes": (lambda x, p: RotaryPositionEncoding(max_length=[100, 200])(x, positions=[p, p]), "int32", 99, TABLE),
    "longrope": (
        lambda x, p: RotaryPositionEncoding(scaling=SCALINGS["longrope"], max_length=100)(x, positions=p),
        "int32",
        99,
        TABLE,
    ),
    "xpos": (
        lambda x, p: RotaryPositionEncoding(scaling={"rope_type": "xpos"}, max_length=100)(x, x, positions=p)[0],
        "int32",
        99,
        TABLE,
    ),
    "between": (lambda x, p: RotaryPositionEncoding()(x, positions=p), "float32", 8e6 + 0.5, [2.0**24, -1e9, np.nan]),
    "times": (lambda _, p: TimestepEmbedding(8, True, 0, 1000.0)(p), "float32", 0.5, [2.0**24, 1e30, np.nan]),
    "learned": (lambda x, p: LearnedPositionEmbedding(100)(x[:, :, 0], positions=p), "int32", 99, TABLE),
    "learned_starts": (
        lambda x, p: LearnedPositionEmbedding(100)(x[:, :, 0], start_index=p[:, 0]),
        "int32",
        99,
        TABLE,
    ),
    "alibi": (lambda x, p: AlibiBias(2)(x, positions=p), "int32", 2**29 - 1, DISTANT),
    "buckets": (lambda x, p: RelativePositionBias(2)(x, positions=p), "int32", 2**29 - 1, DISTANT),
    "distances": (lambda x, p: RelativePositionEmbedding(2, 3)(x, key_positions=p), "int32", 2**29 - 1, DISTANT),
    "windows": (lambda x, p: apart_in_a_window(GridPositionBias(2, (2, 100)), x, p), "int32", 99, APART),
    "network": (lambda x, p: apart_in_a_window(ContinuousPositionBias(2, (2, 100)), x, p), "int32", 99, APART),
    "sums": (
        lambda x, p: SinusoidalPositionEncoding()(x[:, :, 0], positions=p, start_index=p[:, 0]),
        "int32",
        2**23 - 1,
        DISTANT,
    ),
    "wide": (lambda x, p: LearnedPositionEmbedding(100)(x[:, :, 0], positions=p), "int64", 99, [*TABLE, 2**40]),
    "places": (
        lambda x, p: FourierFeatures([[0.3, 0.1], [0.0, 1.5]])(x[:, :, 0, :4], positions=[p, p]),
        "int32",
        2**24 - 1,
        FAR,
    ),
}


def every_reach() -> keras.Model:
    x = keras.Input((None, 2, 8), name="x")
    inputs = {name: keras.Input((None,), dtype=dtype, name=name) for name, (_, dtype, _, _) in REACHES.items()}
    return keras.Model([x, *inputs.values()], {name: REACHES[name][0](x, each) for name, each in inputs.items()})


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_a_position_out_of_reach_never_has_a_value(tmp_path: Path, kind: str) -> None:
    export, name, runtimes = FORMATS[kind]
    path = export(every_reach(), tmp_path / name, ranges=dict.fromkeys(REACHES, (0, 90))).path
    reached = {each: np.array([[last]], dtype) for each, (_, dtype, last, _) in REACHES.items()}
    given = {"x": np.ones((1, 1, 2, 8), "float32"), **reached}
    for runtime in runtimes:
        with Worker(need(runtime), timeout=120) as worker:
            worker.load(path)
            assert all(np.isfinite(each).all() for each in worker.run(given).values())
            for layer, (_, dtype, _, beyond) in REACHES.items():
                for position in beyond:
                    with contextlib.suppress(RuntimeFailedError):
                        returned = worker.run({**given, layer: np.array([[position]], dtype)})
                        (found,) = (each for name, each in returned.items() if name in (layer, f"{layer}_1"))
                        assert np.isnan(found).all(), (runtime, layer, position)
