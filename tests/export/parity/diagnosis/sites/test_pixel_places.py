"""Other pixel coordinates of a resize are distinguished from other weights, and the convention is named."""

from pathlib import Path

import keras
import onnx
import pytest
from keras import layers as L  # noqa: N812

from keras_pe.export import check_parity, export_onnx


def _resizing_so(source: Path, path: Path, **attributes: bytes) -> Path:
    """Writes a file whose one Resize has other attributes."""
    model = onnx.load(source)
    (resize,) = (node for node in model.graph.node if node.op_type == "Resize")
    for name, value in attributes.items():
        kept = [each for each in resize.attribute if each.name != name]
        del resize.attribute[:]
        resize.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    onnx.save(model, path)
    return path


RESIZING, UPSAMPLING = L.Resizing(20, 28, name="resized"), L.UpSampling2D(2, interpolation="bilinear", name="twice")
CORNERS = {"coordinate_transformation_mode": b"align_corners"}
CORNER = {"coordinate_transformation_mode": b"asymmetric"}


@pytest.mark.slow_rows(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "attributes", "cause", "said"),
    [
        (RESIZING, CORNERS, "other places", "'align_corners' and linear"),
        (RESIZING, CORNER, "other places", "'asymmetric' and linear"),
        (RESIZING, {**CORNER, "mode": b"nearest", "nearest_mode": b"floor"}, "other places", "each 'floor'"),
        (UPSAMPLING, CORNER, "other places", "'asymmetric' and linear"),
        (UPSAMPLING, {**CORNER, "mode": b"nearest", "nearest_mode": b"floor"}, "other interpolation", "'nearest'"),
    ],
    ids=["aligned corners", "from the corner", "the pixel below", "twice from the corner", "twice the pixel below"],
)
def test_a_change_of_the_coordinates_between_pixels_is_named(layer, attributes, cause, said, tmp_path):
    keras.utils.set_random_seed(0)
    images = keras.Input((12, 17, 3), name="images")
    resized = type(layer).from_config(layer.get_config())(images)
    model = keras.Model(images, L.Conv2D(4, 3, name="features")(resized))
    file = export_onnx(model, tmp_path / "model.onnx").path
    damaged = _resizing_so(file, tmp_path / "damaged.onnx", **attributes)
    report = check_parity(model, damaged, runtimes=["onnxruntime[all]"])
    (finding,) = report.results[0].findings
    assert (finding.cause, finding.layer) == (cause, layer.name), report
    assert said in finding.evidence
