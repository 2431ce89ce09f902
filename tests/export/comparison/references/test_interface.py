"""The border of an artifact is inferred from its inputs and outputs if nobody gives it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from keras_pe.export import Border, Cause
from keras_pe.export.artifacts.artifact import VERSION_KEY, TensorInfo
from keras_pe.export.comparison.references.interface import Interface, inferred_interface
from keras_pe.export.comparison.references.tensor_pairs import transpose_inputs
from keras_pe.export.model.border_record import BorderRecord

IMAGE = TensorInfo("image", ("batch", "height", "width", 3), "float32")
IDS = TensorInfo("ids", ("batch", "length"), "int32")
SCORES = TensorInfo("scores", ("batch", 7), "float32")
MAPS = TensorInfo("maps", ("batch", "height", "width", 5), "float32")

Spec = tuple[str, int, list[Any]]


def write(path: Path, inputs: list[Spec], outputs: list[Spec], *, is_own: bool = False) -> Path:
    """Writes an ONNX file with an interface; nothing in it can run."""
    values = [[helper.make_tensor_value_info(*spec) for spec in specs] for specs in (inputs, outputs)]
    nodes = [helper.make_node("Identity", [inputs[0][0]], [name]) for name, _, _ in outputs]
    model = helper.make_model(helper.make_graph(nodes, "graph", *values))
    if is_own:
        helper.set_model_props(model, {VERSION_KEY: "1.0"})
    onnx.save(model, path)
    return path


def infer_model_interface(
    path: Path, inputs: tuple[TensorInfo, ...], outputs: tuple[TensorInfo, ...]
) -> tuple[Any, list[Cause]]:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Identity()])
    signature: Any = SimpleNamespace(inputs=inputs, outputs=outputs)
    found = inferred_interface(path, Interface(), model, signature)
    return found.inferred and found.inferred.border, [each.cause for each in found.differences]


FLOAT, FLOAT16, INT64, UINT8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.UINT8
HALF_IMAGE = TensorInfo("image", ("batch", "height", "width", 3), "float16")
FIRST = ["n", 3, "h", "w"]


@pytest.mark.parametrize(
    ("model", "file", "border", "causes"),
    [
        ((IDS,), ("ids", INT64, ["n", "t"]), Border(dtypes={"ids": "int64"}), [Cause.OTHER_INPUT_TYPE]),
        ((IDS,), ("input_ids", INT64, ["n", "t"]), Border(dtypes={"ids": "int64"}), [Cause.OTHER_INPUT_TYPE]),
        ((IMAGE,), ("image", FLOAT, FIRST), Border(layout={"image": "channels_first"}), [Cause.OTHER_IMAGE_LAYOUT]),
        (
            (IMAGE,),
            ("image", UINT8, [1, 3, 8, 8]),
            Border(batch=1, dtypes={"image": "uint8"}, layout={"image": "channels_first"}),
            [Cause.FROZEN_LENGTH, Cause.OTHER_INPUT_TYPE, Cause.OTHER_IMAGE_LAYOUT],
        ),
        ((IMAGE,), ("image", FLOAT, ["n", "h", "w", 3]), None, []),
        ((IMAGE,), ("image", FLOAT, ["n", "h", "w", "c"]), None, []),
        ((IDS, IMAGE), ("ids", TensorProto.INT32, ["n", "t"]), None, [Cause.MISSING_INPUT]),
        (
            (IMAGE,),
            ("image", FLOAT16, ["n", "h", "w", 3]),
            Border(dtypes={"image": "float16"}),
            [Cause.OTHER_INPUT_TYPE],
        ),
        (
            (IMAGE,),
            ("image", TensorProto.DOUBLE, ["n", "h", "w", 3]),
            Border(dtypes={"image": "float64"}),
            [Cause.OTHER_INPUT_TYPE],
        ),
        ((HALF_IMAGE,), ("image", FLOAT, ["n", "h", "w", 3]), None, []),
    ],
)
def test_inputs_tell_types_layouts_and_what_is_missing(
    tmp_path: Path, model: tuple[TensorInfo, ...], file: Spec, border: Border | None, causes: list[Cause]
) -> None:
    path = write(tmp_path / "file.onnx", [file], [("scores", FLOAT, [file[2][0], 7])])
    assert infer_model_interface(path, model, (SCORES,)) == (border, causes)


@pytest.mark.parametrize(
    ("model", "file", "border", "causes"),
    [
        (
            (SCORES,),
            [("scores", INT64, ["n"])],
            Border(postprocessing={"scores": "argmax"}, dtypes={"scores": "int64"}),
            [Cause.DECIDED_OUTPUT],
        ),
        (
            (SCORES,),
            [("label", TensorProto.INT32, ["n"])],
            Border(outputs={"label": "scores"}, postprocessing={"label": "argmax"}),
            [Cause.DECIDED_OUTPUT],
        ),
        (
            (SCORES, MAPS),
            [("scores", FLOAT, ["n", 7]), ("maps", FLOAT, ["n", 5, "h", "w"])],
            Border(layout={"maps": "channels_first"}),
            [Cause.OTHER_IMAGE_LAYOUT],
        ),
        (
            (SCORES, MAPS),
            [("maps", FLOAT, ["n", "h", "w", 5])],
            Border(outputs={"maps": "maps"}),
            [Cause.MISSING_OUTPUT],
        ),
        ((SCORES, MAPS), [("out", FLOAT, ["n", 7])], Border(outputs={"out": "scores"}), [Cause.MISSING_OUTPUT]),
        ((SCORES,), [("scores", FLOAT16, ["n", 7])], Border(dtypes={"scores": "float16"}), [Cause.OTHER_DTYPE]),
        (
            (SCORES,),
            [("other", FLOAT16, ["n", 7])],
            Border(outputs={"other": "scores"}, dtypes={"other": "float16"}),
            [Cause.OTHER_DTYPE],
        ),
        ((SCORES,), [("other", FLOAT, ["n", 7])], None, []),
        ((SCORES,), [("scores", FLOAT, ["n", 7]), ("more", FLOAT, ["n", 7])], None, []),
    ],
)
def test_outputs_tell_decisions_layouts_and_what_is_missing(
    tmp_path: Path, model: tuple[TensorInfo, ...], file: list[Spec], border: Border | None, causes: list[Cause]
) -> None:
    path = write(tmp_path / "file.onnx", [("ids", TensorProto.INT32, ["n", "t"])], file)
    assert infer_model_interface(path, (IDS,), model) == (border, causes)


def test_every_difference_names_all_the_options_that_accept_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "file.onnx", [("image", UINT8, FIRST)], [("scores", FLOAT, ["n", 7])])
    signature: Any = SimpleNamespace(inputs=(IMAGE,), outputs=(SCORES,))
    found = inferred_interface(path, Interface(), keras.Sequential([keras.Input((2,))]), signature)
    for each in found.differences:
        assert "--dtype image=uint8 --layout image=channels_first" in each.evidence


def test_floats_of_the_precision_that_is_accepted_are_no_difference(tmp_path: Path) -> None:
    path = write(tmp_path / "file.onnx", [("image", FLOAT16, ["n", "h", "w", 3])], [("scores", FLOAT16, ["n", 7])])
    signature: Any = SimpleNamespace(inputs=(IMAGE,), outputs=(SCORES,))
    model = keras.Sequential([keras.Input((2,))])
    for precision, causes in (("float16", []), ("int8", [Cause.OTHER_INPUT_TYPE, Cause.OTHER_DTYPE])):
        found = inferred_interface(path, Interface(), model, signature, precision)
        assert [each.cause for each in found.differences] == causes
    assert "--dtype image=float16 --dtype scores=float16" in found.differences[0].evidence
    assert "precision='float16'" in found.differences[0].evidence


def test_the_way_out_names_the_border_that_is_given_as_well(tmp_path: Path) -> None:
    path = write(tmp_path / "file.onnx", [("image", UINT8, FIRST)], [("label", INT64, ["n"])])
    model = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Flatten(), keras.layers.Dense(7)])
    given = Border(layout={"image": "channels_first"}, outputs=["scores"], batch=2)
    image, scores = TensorInfo("image", (2, 3, "height", "width"), "float32"), TensorInfo("scores", (2, 7), "float32")
    signature: Any = SimpleNamespace(inputs=(image,), outputs=(scores,))
    known = Interface(BorderRecord(repr(given), given, 1))
    found = inferred_interface(path, known, model, signature)
    whole = "--batch 2 --dtype image=uint8 --dtype label=int64 --layout image=channels_first --output label=scores "
    for each in found.differences:
        assert whole + "--postprocessing label=argmax" in each.evidence


@pytest.mark.parametrize("cause", [Cause.MISSING_INPUT, Cause.EXTRA_INPUT])
def test_a_missing_or_an_extra_input_says_what_to_do(tmp_path: Path, cause: Cause) -> None:
    image: Spec = ("image", UINT8, ["n", "h", "w", 3])
    ids: list[Spec] = [("ids", TensorProto.INT32, ["n", "t"])] if cause is Cause.EXTRA_INPUT else []
    path = write(tmp_path / "file.onnx", [image, *ids], [("scores", FLOAT, ["n", 7])])
    takes = (IMAGE,) if ids else (IMAGE, IDS)
    signature: Any = SimpleNamespace(inputs=takes, outputs=(SCORES,))
    found = inferred_interface(path, Interface(), keras.Sequential([keras.Input((2,))]), signature).differences
    said = {each.cause: each.evidence for each in found}
    assert "No option accepts this" in said[cause]
    assert "--dtype" not in said[cause]
    assert "--dtype image=uint8" in said[Cause.OTHER_INPUT_TYPE]


def test_a_file_of_this_package_whose_input_was_renamed_is_named(tmp_path: Path) -> None:
    specs: tuple[Any, ...] = ([("x", TensorProto.INT32, ["n", "t"])], [("scores", FLOAT, ["n", 7])])
    own = write(tmp_path / "own.onnx", *specs, is_own=True)
    assert infer_model_interface(own, (IDS,), (SCORES,)) == (Border(inputs={"x": "ids"}), [Cause.RENAMED_INPUT])
    assert infer_model_interface(write(tmp_path / "other.onnx", *specs), (IDS,), (SCORES,)) == (None, [])


def test_arrays_are_turned_where_only_that_fits() -> None:
    takes = [TensorInfo("image", ("batch", 3, "height", "width"), "uint8")]
    for shape, turned in (((2, 8, 9, 3), (2, 3, 8, 9)), ((2, 3, 8, 9), (2, 3, 8, 9)), ((2, 8, 9, 4), (2, 8, 9, 4))):
        found = transpose_inputs({"image": np.zeros(shape)}, {"image": "channels_first"}, takes)
        assert found["image"].shape == turned
