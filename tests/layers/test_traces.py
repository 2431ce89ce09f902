"""One trace of the layer gives the right numbers at sizes that it never saw, on each backend."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe import (
    AlibiBias,
    ContinuousPositionBias,
    FourierFeatures,
    GridPositionBias,
    GridPositionEmbedding,
    LearnedPositionEmbedding,
    RelativePositionBias,
    RelativePositionEmbedding,
    RotaryPositionEncoding,
    SinusoidalPositionEncoding,
    TimestepEmbedding,
    timing_signal,
)

CHANNELS = 16
# Within, at and past the first rows of the table, and past the first multiple of them.
LENGTHS = (1, 2, 5, 511, 512, 513, 700, 1024, 1500, 4097)
EXACT = 2.5e-7
BACKEND = keras.config.backend()

on_torch = pytest.mark.skipif(BACKEND != "torch", reason="PyTorch's own ways to trace")
on_jax = pytest.mark.skipif(BACKEND != "jax", reason="JAX' own ways to trace")
pytestmark = pytest.mark.filterwarnings("ignore")  # exporters warn of what is deprecated in themselves


def built(**config: Any) -> SinusoidalPositionEncoding:
    layer = SinusoidalPositionEncoding(**config)
    layer.build((None, None, CHANNELS))
    return layer


def assert_right_at_every_length(run: Callable[[np.ndarray], Any], lengths: tuple[int, ...] = LENGTHS) -> None:
    for length in lengths:
        outputs = np.asarray(run(np.zeros((2, length, CHANNELS), "float32")))
        assert np.abs(outputs - timing_signal(np.arange(length), CHANNELS)).max() <= EXACT, length


CONFIGS = pytest.mark.parametrize("config", [{}, {"max_length": 5_000}, {"max_length": 20_000}])


# Packages that Keras needs to export ONNX.
ONNX_EXPORTERS = {"jax": "jax2onnx", "tensorflow": "tf2onnx", "torch": "onnxscript"}


@pytest.mark.slow
@CONFIGS
def test_keras_own_onnx_export_holds_at_every_length(tmp_path: Path, config: dict[str, Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip(ONNX_EXPORTERS[BACKEND])
    model = keras.Sequential([keras.Input((None, CHANNELS)), SinusoidalPositionEncoding(**config)])
    model(np.zeros((1, 3, CHANNELS), "float32"))
    model.export(tmp_path / "model.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (given,) = session.get_inputs()
    assert_right_at_every_length(lambda x: session.run(None, {given.name: x})[0])


@on_torch
class TestPyTorch:
    @CONFIGS
    def test_a_jit_trace_of_few_rows_holds_for_many(self, config: dict[str, Any]) -> None:
        import torch

        traced = torch.jit.trace(built(**config), (torch.zeros(2, 300, CHANNELS),))
        assert_right_at_every_length(lambda x: traced(torch.tensor(x)).numpy())

    @CONFIGS
    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize("bounds", [{}, {"min": 1, "max": 5_000}])
    def test_an_exported_program_holds_at_every_length(
        self, config: dict[str, Any], strict: bool, bounds: dict[str, int]
    ) -> None:
        import torch

        shapes = {"args": ({1: torch.export.Dim("length", **bounds)},)}
        example = (torch.zeros(2, 300, CHANNELS),)
        program = torch.export.export(built(**config), example, dynamic_shapes=shapes, strict=strict).module()
        assert_right_at_every_length(lambda x: program(torch.tensor(x)).numpy())

    @pytest.mark.slow
    @pytest.mark.parametrize("share_heads", [True, False])
    def test_an_exported_relative_embedding_holds_at_every_length(self, share_heads: bool) -> None:
        import torch

        layer = RelativePositionEmbedding(4, 3, share_heads=share_heads)
        layer.build((None, None, 4, 6))
        queries = torch.randn(2, 40, 4, 6, generator=torch.Generator().manual_seed(0))
        shapes = {"args": ({1: torch.export.Dim("length")},)}
        program = torch.export.export(layer, (queries[:, :5].clone(),), dynamic_shapes=shapes).module()
        for length in (1, 2, 9, 40):
            found, expected = (each(queries[:, :length]).detach() for each in (program, layer))
            # Sums below 8 of six products, in another order: each of five sums rounds by 2**-22 at most.
            np.testing.assert_allclose(found, expected, rtol=0, atol=2 * 5 * 2.0**-22)

    @pytest.mark.parametrize("length", [5, 700])
    @pytest.mark.parametrize("max_length", [None, 1000])
    def test_outputs_that_are_changed_in_place_leave_the_layer_as_it_was(self, max_length: int, length: int) -> None:
        import torch

        layer = built(combine="replace", max_length=max_length)
        expected = timing_signal(np.arange(length), CHANNELS)
        for _ in range(2):
            outputs = layer(torch.zeros(1, length, CHANNELS))
            assert np.abs(outputs.numpy() - expected).max() <= EXACT
            outputs.fill_(7.0)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "arguments",
        [
            {"sections": (1, 3), "split_sections": True},
            {"axis_of_pair": (0, 1, 1, 0), "direction": -1},
            {
                "scaling": {
                    "rope_type": "longrope",
                    "short_factor": [1.0] * 4,
                    "long_factor": [2.0] * 4,
                    "original_max_position_embeddings": 6,
                    "factor": 2.0,
                }
            },
            {"query_scaling": {"scale": 0.1, "length": 3}},
        ],
    )
    def test_a_rotary_layer_compiles_without_a_break_in_the_graph(self, arguments: dict[str, Any]) -> None:
        import torch

        layer, x = RotaryPositionEncoding(**arguments), torch.rand(2, 9, 3, 8)
        positions = torch.arange(18).reshape(2, 9).int()
        given = [positions, positions] if {"sections", "axis_of_pair"} & set(arguments) else positions
        expected = layer(x, positions=given)
        compiled = torch.compile(lambda x, p: layer(x, positions=p), fullgraph=True, dynamic=True, backend="aot_eager")
        # A product and a sum may be rounded at once.
        np.testing.assert_allclose(compiled(x, given), expected, rtol=0, atol=4 * 2.0**-23)

    @pytest.mark.parametrize(
        ("kind", "arguments", "shape"),
        [
            (AlibiBias, (4,), (2, 8, 16)),
            (ContinuousPositionBias, (4, (2, 4)), (2, 8, 16)),
            (FourierFeatures, (np.ones((1, 8)),), (2, 9, 16)),
            (GridPositionBias, (4, (2, 4)), (2, 8, 16)),
            (GridPositionEmbedding, ((2, 4),), (2, 8, 16)),
            (LearnedPositionEmbedding, (32,), (2, 8, 16)),
            (RelativePositionBias, (4,), (2, 8, 16)),
            (RelativePositionEmbedding, (4, 3), (2, 8, 4, 6)),
            (RotaryPositionEncoding, (), (2, 8, 4, 16)),
            (SinusoidalPositionEncoding, (), (2, 4, 8, 16)),
            (TimestepEmbedding, (16,), (2,)),
        ],
        ids=lambda value: value.__name__ if isinstance(value, type) else "",
    )
    def test_a_layer_that_was_never_called_compiles_without_a_break_in_the_graph(
        self, kind: Any, arguments: tuple[Any, ...], shape: tuple[int, ...]
    ) -> None:
        import torch

        torch._dynamo.reset()  # It compiles the code of a call eight times at most.
        layer, x = kind(*arguments), torch.rand(shape)
        compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
        np.testing.assert_allclose(compiled(x).detach(), layer(x).detach(), rtol=0, atol=4 * 2.0**-23)

    @pytest.mark.parametrize(
        "layer", [RotaryPositionEncoding(), SinusoidalPositionEncoding(), LearnedPositionEmbedding(9)]
    )
    def test_a_layer_takes_meta_tensors_inside_their_device(self, layer: keras.Layer) -> None:
        import torch

        shape = (2, 8, 4, 16) if isinstance(layer, RotaryPositionEncoding) else (2, 8, 16)
        with keras.device("meta"):
            found = layer(torch.empty(shape, device="meta"))
        assert found.is_meta

    def test_it_compiles_without_a_break_in_the_graph(self) -> None:
        import torch

        torch._dynamo.reset()
        compiled = torch.compile(built(), fullgraph=True, backend="aot_eager")
        assert_right_at_every_length(lambda x: compiled(torch.tensor(x)).numpy(), (5, 512, 700, 1500))

    @pytest.mark.parametrize("max_length", [None, 2000])
    @pytest.mark.parametrize("is_built", [True, False])
    def test_it_compiles_for_inference(self, is_built: bool, max_length: int | None) -> None:
        import torch

        # TorchDynamo's guard of a NumPy array fails in inference mode.
        layer = built(max_length=max_length) if is_built else SinusoidalPositionEncoding(max_length=max_length)
        compiled = torch.compile(layer, dynamic=True, backend="aot_eager")
        with torch.inference_mode():
            assert_right_at_every_length(lambda x: compiled(torch.tensor(x)).numpy(), (5, 512, 700, 1500))


@on_jax
class TestJAX:
    @CONFIGS
    def test_jit_and_vmap_hold_at_every_length(self, config: dict[str, Any]) -> None:
        import jax

        layer = built(**config)
        assert_right_at_every_length(jax.jit(layer))
        assert_right_at_every_length(lambda x: jax.vmap(layer)(x[:, np.newaxis])[:, 0], (5, 700))

    @CONFIGS
    def test_an_export_with_symbolic_sizes_holds_at_every_length(self, config: dict[str, Any]) -> None:
        import jax
        from jax import export

        shape = (*export.symbolic_shape("batch, length"), CHANNELS)
        exported = export.export(jax.jit(built(**config)))(jax.ShapeDtypeStruct(shape, "float32"))
        assert_right_at_every_length(exported.call)

    @CONFIGS
    def test_keras_own_saved_model_holds_at_every_length(self, tmp_path: Path, config: dict[str, Any]) -> None:
        tf = pytest.importorskip("tensorflow")
        model = keras.Sequential([keras.Input((None, CHANNELS)), SinusoidalPositionEncoding(**config)])
        model(np.zeros((1, 3, CHANNELS), "float32"))
        model.export(tmp_path / "model", verbose=False)
        serve = tf.saved_model.load(tmp_path / "model").serve
        assert_right_at_every_length(lambda x: serve(tf.constant(x)))

    def test_an_export_with_symbolic_sizes_knows_long_texts_from_short_ones(self) -> None:
        import jax

        factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
        layer = RotaryPositionEncoding(
            scaling={"rope_type": "longrope", "original_max_position_embeddings": 6, "factor": 2.0, **factors}
        )
        queries = np.ones((1, 9, 1, 8), "float32")
        layer(queries)
        shape = jax.ShapeDtypeStruct(jax.export.symbolic_shape("batch, length, 1, 8"), "float32")
        exported = jax.export.export(jax.jit(layer))(shape)
        for length in (4, 6, 7, 9):
            np.testing.assert_array_equal(exported.call(queries[:, :length]), layer(queries[:, :length]))

    def test_positions_have_gradients(self) -> None:
        import jax

        layer = built(combine="replace")
        slopes = jax.grad(lambda p: layer(np.zeros((1, 3, CHANNELS), "float32"), positions=p)[..., 0].sum())
        positions = np.array([0.5, 1.0, 2.0], "float32")
        # The first column is sin(position): cosines of angles below 4, rounded some ten times.
        np.testing.assert_allclose(slopes(positions), np.cos(positions), atol=1e-6)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="graphs of TensorFlow")
class TestTensorFlow:
    @pytest.mark.slow
    @pytest.mark.parametrize("jit_compile", [False, True])
    @pytest.mark.parametrize("start", [0, -700, 5, 1_000_000])
    def test_a_start_that_only_the_graph_knows_holds_at_every_length(self, jit_compile: bool, start: int) -> None:
        import tensorflow as tf

        layer = built(combine="replace")
        signature = [tf.TensorSpec([None, None, CHANNELS]), tf.TensorSpec([], tf.int32)]

        @tf.function(input_signature=signature, jit_compile=jit_compile)
        def run(x: Any, first: Any) -> Any:
            return layer(x, start_index=first)

        for length in (1, 511, 512, 513, 1500):
            x = np.zeros((1, length, CHANNELS), "float32")
            outputs = run(x, np.int32(start)).numpy()[0]
            assert np.abs(outputs - timing_signal(start + np.arange(length), CHANNELS)).max() <= EXACT
            if not jit_compile:  # XLA may fuse a product and a sum into one rounding
                np.testing.assert_array_equal(outputs, layer(x, start_index=start)[0])

    @pytest.mark.slow
    def test_equal_layers_share_their_tables_in_a_graph(self) -> None:
        import tensorflow as tf

        model = keras.Sequential([keras.Input((None, 64)), *(SinusoidalPositionEncoding() for _ in range(3))])
        graph = tf.function(model).get_concrete_function(tf.TensorSpec([None, None, 64])).graph
        one = tf.function(model.layers[0]).get_concrete_function(tf.TensorSpec([None, None, 64])).graph
        sizes = [len(each.as_graph_def().SerializeToString()) for each in (one, graph)]
        table = 512 * 64 * 4  # bytes of the first rows alone
        assert sizes[1] - sizes[0] < table < sizes[0]
