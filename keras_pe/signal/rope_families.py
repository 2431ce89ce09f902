"""Facts about model families that their configurations leave out: bases, rotated parts, layouts, axes of pairs.

Source: transformers 5.24.0, the configuration and modeling file of each family.
"""

from typing import Literal, NamedTuple

from keras_pe.signal.layouts import RotaryLayout

AxialRule = Literal[
    "plain", "neighbors", "columns_first", "columns_first_neighbors", "alternate", "blocks", "dealt", "three"
]


class Family(NamedTuple):
    """Rules that the code of a family adds to its configuration.

    Attributes:
        base: `rope_theta` if the configuration has none.
        part: `partial_rotary_factor` if the configuration has none.
        layout: Layout of the pairs, or None for "halves".
        sections: `mrope_section` if the configuration has none, or None for a model with one axis of positions.
        deal: How pairs belong to the axes of `mrope_section`: "side_by_side", "in_turns", "rows_and_columns_first"
            or "of_channels".
        axial: The rule of a vision encoder with rows and columns, or None.
        window_base: `rope_theta` of layers with a sliding window if the configuration has none for them, or None. A
            scaling then changes the other layers alone.
        scales_full_attention_alone: Whether a scaling leaves out layers with a sliding window. All have one base.
        rotates_windows_alone: Whether layers without a sliding window have no rotation where other layers have one.
        is_silent: Whether old configurations of the family have no rotary name at all.
        refusal: The reason for which no layer fits, or None.
    """

    base: float = 1.0e4
    part: float = 1.0
    layout: RotaryLayout | None = None
    sections: tuple[int, ...] | None = None
    deal: str = "side_by_side"
    axial: AxialRule | None = None
    window_base: float | None = None
    scales_full_attention_alone: bool = False
    rotates_windows_alone: bool = False
    is_silent: bool = False
    refusal: str | None = None


_DEALT = "its pairs are dealt to rows and columns in another way"
_WITHOUT_POSITIONS = "its attention layers have no positions"
_NORMALIZED = "its positions are coordinates of the image from -1 to 1, times 2 pi, and not those of the configuration"


def _of(names: str, **facts: object) -> dict[str, Family]:
    return {name: Family(**facts) for name in names.split()}  # type: ignore[arg-type]


_FAMILIES: dict[str, Family] = {
    **_of("llama mistral falcon RefinedWeb RefinedWebModel internlm xverse moss yi aquila open_llama", is_silent=True),
    **_of("gemma3 gemma3n t5gemma2", base=1.0e6, window_base=1.0e4),
    **_of("modernbert modernbert_decoder", base=1.6e5, window_base=1.0e4),
    **_of("gemma gemma2 qwen qwen2 starcoder2 phi3", is_silent=True),
    **_of("gptj codegen roformer", layout="interleaved", is_silent=True),
    **_of("gpt_neox", part=0.25, is_silent=True),
    **_of("gpt_neox_japanese", is_silent=True),
    **_of("phi persimmon nemotron recurrent_gemma glm4_moe glmasr_encoder", part=0.5),
    **_of("glm4v_moe", part=0.5, sections=(8, 12, 12)),
    **_of("glm_image", sections=(8, 12, 12)),
    **_of("bamba dots3_note_audio_encoder nemotron3_5_transcribe_asr_audio", part=0.5),
    **_of("stablelm stablelm_epoch qwen3_next", part=0.25),
    **_of("fuyu", base=2.5e4, part=0.5),
    **_of("chatglm glm glm4", part=0.5, layout="interleaved"),
    **_of("glm4v glm_ocr", layout="interleaved", sections=(8, 12, 12)),
    **_of("moonshine", part=0.9, layout="interleaved"),
    **_of("cohere", base=5.0e5, layout="interleaved"),
    **_of("cohere2 cohere2_moe", layout="interleaved", rotates_windows_alone=True),
    **_of("afmoe exaone4 exaone4_5 exaone_moe flint kolibri1", rotates_windows_alone=True),
    **_of("blt_patcher deepseek_v2 moonshine_streaming neobert", layout="interleaved"),
    **_of("helium", base=1.0e5, layout="interleaved"),
    **_of("ernie4_5 ernie4_5_moe blt blt_local_encoder blt_local_decoder blt_global_transformer", base=5.0e5,
          layout="interleaved"),
    **_of("llama4 llama4_text", base=5.0e5, layout="interleaved"),
    **_of("bailing_hybrid", base=6.0e6, layout="interleaved_to_halves"),
    **_of("deepseek_v3 deepseek_v32 axk1 axk2 glm4_moe_lite glm_moe_dsa kimi_k2 mistral4 mistral_large4 "
          "youtu",
          layout="interleaved_to_halves"),
    **_of("longcat_flash", base=1.0e7, layout="interleaved_to_halves"),
    **_of("ernie4_5_vl_moe ernie4_5_moe_vl", base=5.0e5, layout="interleaved", sections=(22, 22, 20),
          deal="rows_and_columns_first"),
    **_of("hy_v4_vl", layout="interleaved", sections=(12, 10, 10), deal="in_turns"),
    **_of("cosmos3_edge", base=1.0e8, sections=(24, 20, 20), deal="in_turns"),
    **_of("qwen3_vl qwen3_vl_moe", base=5.0e5, sections=(24, 20, 20), deal="in_turns"),
    **_of("qwen3_omni_moe", base=1.0e6, sections=(24, 20, 20), deal="in_turns"),
    **_of("qwen3_omni_moe_talker", sections=(24, 20, 20), deal="in_turns"),
    **_of("qwen3_5 qwen3_5_moe", part=0.25, sections=(11, 11, 10), deal="in_turns"),
    **_of("qwen4_exp", sections=(11, 11, 10), deal="in_turns"),
    **_of("cohere_compass", sections=(24, 20, 20), deal="in_turns"),
    **_of("paddleocr_vl", base=5.0e5, sections=(16, 24, 24)),
    **_of("qwen2_vl qwen2_5_vl qwen2_5_omni qwen2_5_omni_talker", base=1.0e6, sections=(16, 24, 24)),
    **_of("apertus apertus1p5", base=1.2e7),
    **_of("bitnet csm csm_depth_decoder_model evolla exaone flex_olmo mllama muse_glimmer_assistant", base=5.0e5),
    # transformers 5 gives windows 5e5 beside another `rope_theta`; training and earlier versions have one base.
    **_of("olmo3", base=5.0e5, scales_full_attention_alone=True),
    **_of("cwm emu3 lfm2 lfm2_moe lfm3 minimax mixtral phimoe solar_open", base=1.0e6),
    **_of("dots3_note", base=8.0e7, layout="interleaved_to_halves"),
    **_of("gpt_oss", base=1.5e5),
    **_of("openai_privacy_filter", base=1.5e5, layout="interleaved"),
    **_of("gte", base=1.6e5),
    **_of("hy_v3", base=11_158_840.0),
    **_of("jina_embeddings_v3", base=2.0e4),
    **_of("pe_audio_encoder pe_audio_video_encoder pe_video_encoder", base=2.0e4, layout="interleaved"),
    **_of("minimax_m2 minimax_m3_vl_text", base=5.0e6),
    **_of("nomic_bert", base=1.0e3),
    **_of("sarvam_moe", base=8.0e6),
    **_of("smollm3", base=2.0e6),
    **_of("cohere_compass_vision dots3_note_vision_encoder ernie4_5_vl_moe_vision exaone4_5_vision glm4v_vision "
          "glm4v_moe_vision glm5_next_vision glm_image_vision glm_ocr_vision mlcd_vision_model muse_glimmer_vision "
          "muse_spark_vision paddleocr_vl_vision qwen2_5_omni_vision_encoder qwen2_5_vl_vision qwen2_vl_vision "
          "qwen3_5_vision qwen3_5_moe_vision qwen3_omni_moe_vision_encoder qwen3_vl_vision qwen3_vl_moe_vision "
          "qwen4_exp_vision video_llama_3_vision", axial="plain"),
    **_of("lfm3_vl_vision", base=1.0e6, axial="plain"),
    **_of("edgetam_video sam2_video sam3_vit_model sam3_tracker_video", axial="neighbors"),
    **_of("step3p5_vision", axial="columns_first"),
    **_of("inkling2_vision", axial="columns_first_neighbors"),
    **_of("kimi_k25_vision", axial="alternate"),
    **_of("gemma4_vision", base=100.0, axial="blocks"),
    **_of("pixtral", axial="dealt"),
    **_of("minimax_m3_vl_vision", axial="three"),
    **_of("hunyuan_vl", deal="of_channels"),
    **_of("dinov3_vit eomt_dinov3 sapiens2", base=100.0, refusal=_NORMALIZED),
    **_of("clvp clvp_encoder", refusal="its attention layers rotate the values as well"),
    **_of("musicflamingo", refusal="its angles are products of a time and a position"),
    **_of("deepseek_v4", refusal="it rotates the last channels of a head. Slice these, and leave `model_type` out"),
    **_of("qwen2_5_omni_dit", refusal="its attention layers rotate the first head alone"),
    **_of("kimi_linear nemotron_h", refusal=_WITHOUT_POSITIONS),
    **_of("llama4_vision_model vjepa2 efficientloftr neomme", refusal=_DEALT),
}  # fmt: skip


def family_of(model_type: object) -> Family:
    """Returns the facts of a `model_type`, those of most models if it is not one of these."""
    name = model_type if isinstance(model_type, str) else ""
    for each in (name, *(name.removesuffix(suffix) for suffix in ("_text", "_text_model"))):
        if each in _FAMILIES:
            return _FAMILIES[each]
    return Family()
