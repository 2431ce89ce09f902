"""A decoder of another exporter is recognized by its inputs, and padding is seen in sequences alone."""

from pathlib import Path

import onnx
import pytest

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.artifacts.artifact import TensorInfo
from keras_pe.export.model.foreign_decoder import foreign_decoder_record
from tests.export.decoders.faulty_decoders import EditedGraph, ignore_mask
from tests.export.decoders.small_decoders import own_decoder

TOKENS = (TensorInfo("input_ids", ("b", "s"), "int64"), TensorInfo("attention_mask", ("b", "t"), "int64"))
POSITIONS = TensorInfo("position_ids", ("b", "s"), "int64")
CACHE = tuple(TensorInfo(name, ("b", 2, "p", 4), "float32") for name in ("past_key_0", "past_value_0"))


def test_the_inputs_decide() -> None:
    model = own_decoder()
    plain = foreign_decoder_record(model, (*TOKENS, *CACHE))
    positioned = foreign_decoder_record(model, (*TOKENS, POSITIONS, *CACHE))
    assert plain is not None
    assert positioned is not None
    assert (plain.has_positions, positioned.has_positions) == (False, True)
    assert plain != positioned
    for others in ((), TOKENS, (TOKENS[0], *CACHE), (*TOKENS, *CACHE, POSITIONS, TensorInfo("x", ("b",), "int64"))):
        assert foreign_decoder_record(model, others) is None


def test_positions_are_inputs_of_the_reference() -> None:
    record = foreign_decoder_record(own_decoder(), (*TOKENS, POSITIONS, *CACHE))
    assert record is not None
    model, signature = record.around(own_decoder())
    assert "position_ids" in {spec.name for spec in signature.inputs}
    assert not model.has_values_at_padding
    assert signature.values.ranges["attention_mask"] == (1, 2)
    again = type(model).from_config(model.get_config())
    assert again.has_positions


@pytest.mark.slow
def test_a_file_that_ignores_its_mask_differs_in_sequences_with_padding(tmp_path: Path) -> None:
    model = own_decoder()
    export_onnx(model, tmp_path / "own.onnx", state="cache")
    foreign = onnx.load(tmp_path / "own.onnx")
    del foreign.metadata_props[:]
    onnx.save(foreign, tmp_path / "sound.onnx")
    graph = EditedGraph(tmp_path / "sound.onnx")
    ignore_mask(graph)
    graph.save(tmp_path / "faulty.onnx")
    files = [tmp_path / f"{name}.onnx" for name in ("sound", "faulty")]
    report = check_parity(model, files, runtimes="onnxruntime", diagnosis_seconds=0)
    sound, faulty = (next(each for each in report.results if name in each.artifact) for name in ("sound", "faulty"))
    assert sound.passed, str(report)
    assert [case.name for case in faulty.cases if case.status == "failed"] == [
        "prompts padded at the right",
        "prompts padded at the left",
    ]
