"""The rates of rotary encodings, beside those that Hugging Face's own functions returned."""

import json
from typing import Any

import numpy as np
import pytest

from keras_pe import rope_timescales
from keras_pe.signal.rope_parameters import rope_arguments
from tests.golden.rope_scalings import RETURNED

# Hugging Face's rates are powers and up to five operations in float32. In a power of theta the exponent's rounding
# (2**-24) counts times the logarithm of the base, ln(1e6) = 14.
FLOAT32 = (14 + 5) * 2.0**-24


def golden() -> dict[str, tuple[dict[str, Any], np.ndarray, float]]:
    with np.load(RETURNED) as file:
        cases = json.loads(str(file["cases"]))
        return {
            name: (each, file[f"{name}/inv_freq"], float(file[f"{name}/attention_factor"]))
            for name, each in cases.items()
        }


@pytest.mark.parametrize("name", golden())
def test_a_configuration_gives_the_rates_of_hugging_face(name: str) -> None:
    case, rates, attention_factor = golden()[name]
    arguments = rope_arguments(case["config"], length=case["length"])
    head_dim = case["config"].get("head_dim", 64)
    scaling = arguments.get("scaling", {"rope_type": "default"})
    got = rope_timescales(channels=arguments.get("rotary_dim", head_dim), rope_theta=arguments["base"], **scaling)
    np.testing.assert_allclose(1.0 / got.timescales, rates, rtol=FLOAT32, atol=0)
    assert got.attention_factor == pytest.approx(attention_factor, rel=1e-12)


def test_every_scaling_has_a_golden_case() -> None:
    kinds = {case["config"]["rope_parameters"]["rope_type"] for case, *_ in golden().values()}
    # Hugging Face has no "xpos": it is held to flash-attn's formula in the layer's tests.
    assert kinds == {"default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"}


LLAMA = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"hidden_size": 64, "rope_theta": 5e5, "rope_scaling": None}, {"base": 5e5}),
        (
            {"rope_theta": 5e5, "rope_type": "llama3", **LLAMA},
            {"base": 5e5, "scaling": {"rope_type": "llama3", **LLAMA}},
        ),
        ({"type": "linear", "factor": 2.0}, {"base": 1e4, "scaling": {"rope_type": "linear", "factor": 2.0}}),
        ({"hidden_size": 64, "num_attention_heads": 4, "rotary_pct": 0.25}, {"base": 1e4, "rotary_dim": 4}),
        ({"n_embd": 4096, "rotary_dim": 64}, {"base": 1e4, "rotary_dim": 64}),
        # StableLM's and Nemotron's first names.
        ({"hidden_size": 2560, "num_attention_heads": 32, "rope_pct": 0.25}, {"base": 1e4, "rotary_dim": 20}),
        ({"hidden_size": 6144, "num_attention_heads": 48, "rope_percent": 0.5}, {"base": 1e4, "rotary_dim": 64}),
        # HunYuan's: not dynamic, its `alpha` is fixed.
        (
            {"head_dim": 4, "rope_theta": 100.0, "rope_scaling": {"type": "dynamic", "alpha": 9.0, "factor": 1.0}},
            {"base": 100.0 * 9.0**2},
        ),
        (
            {"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
            {"base": 1e6, "sections": (16, 24, 24), "shared_rates": True},
        ),
        (
            {"rope_theta": 5e6, "rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": True},
            {"base": 5e6, "sections": (24, 20, 20), "shared_rates": True, "interleave_sections": True},
        ),
        ({"text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}}, {"base": 1e6}),
    ],
)
def test_configurations_of_every_year_are_read(config: dict[str, Any], expected: dict[str, Any]) -> None:
    assert rope_arguments(config) == expected


def test_parameters_of_several_types_of_layers_are_told_apart() -> None:
    config = {
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        }
    }
    assert rope_arguments(config, layer_type="sliding_attention") == {"base": 1e4}
    full = rope_arguments(config, layer_type="full_attention")
    assert full == {"base": 1e6, "scaling": {"rope_type": "linear", "factor": 8.0}}
    with pytest.raises(ValueError, match="`layer_type` must be one of 'full_attention', 'sliding_attention'"):
        rope_arguments(config)
    older = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    assert rope_arguments(older, layer_type="sliding_attention") == {"base": 1e4}
    assert rope_arguments(older, layer_type="full_attention") == full


def test_bases_of_types_of_layers_are_told_apart() -> None:
    """ModernBERT's, before they were nested."""
    config = {"hidden_size": 768, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    assert rope_arguments(config, layer_type="full_attention") == {"base": 160000.0}
    assert rope_arguments(config, layer_type="sliding_attention") == {"base": 10000.0}
    with pytest.raises(ValueError, match="`layer_type` must be one of 'full_attention', 'sliding_attention'"):
        rope_arguments(config)


def test_a_factor_of_short_texts_and_of_long_ones_is_an_attention_factor_where_it_is_one() -> None:
    """Phi-3.5-MoE's."""
    factors = {"short_factor": [1.0], "long_factor": [2.0], "original_max_position_embeddings": 64}
    arguments = rope_arguments({"type": "longrope", **factors, "short_mscale": 1.25, "long_mscale": 1.25})
    assert arguments["scaling"] == {"rope_type": "longrope", **factors, "attention_factor": 1.25}
    with pytest.raises(ValueError, match="`short_mscale` and `long_mscale` must be the same"):
        rope_arguments({"type": "longrope", **factors, "short_mscale": 1.25, "long_mscale": 1.5})


def test_llama_3_may_have_no_blend() -> None:
    """Llama 4 Scout's: pairs of a wavelength above 8,192 are slowed down, all others stay."""
    scaling = LLAMA | {"factor": 16.0, "high_freq_factor": 1.0}
    plain = rope_timescales("default", 128, 5e5).timescales
    expected = np.where(2 * np.pi * plain > 8192, 16.0 * plain, plain)
    np.testing.assert_allclose(rope_timescales("llama3", 128, 5e5, **scaling).timescales, expected, rtol=1e-12)


def test_ignored_parameters_of_a_scaling_are_reported() -> None:
    with pytest.warns(UserWarning, match="'finetuned'"):
        rope_arguments({"rope_type": "linear", "factor": 2.0, "finetuned": True})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rope_type": "yarm"}, "Did you mean 'yarn'"),
        ({"rope_type": "linear"}, "`factor` must be given for 'linear'"),
        ({"rope_type": "linear", "factor": 0.0}, "`factor` must be positive"),
        ({"rope_type": "default", "factor": 2.0}, "`factor` must be a parameter of 'default'."),
        ({"rope_type": "dynamic", "factor": 2.0, "max_position_embeddings": 4096}, "`length` must be given"),
        ({"rope_type": "yarn", "original_max_position_embeddings": 64}, "or `max_position_embeddings`"),
        (
            {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0] * 4, "factor": 2.0, "length": 1,
             "original_max_position_embeddings": 64},
            "`short_factor` must have one value for two channels: 4",
        ),
        ({"rope_type": "default", "channels": 7}, "`channels` must be an even number"),
    ],
)  # fmt: skip
def test_a_parameter_that_does_not_fit_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rope_timescales(**{"channels": 8, **arguments})
