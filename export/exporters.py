"""The public exporters: each exports a model to one format, and explains a disagreement as the parity check does."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact
from keras_pe.export.comparison.inputs.cases import GivenInputs
from keras_pe.export.errors import check_type, check_whole
from keras_pe.export.formats.litert import litert_format
from keras_pe.export.formats.saved_model import saved_model_format
from keras_pe.export.model.border import Border
from keras_pe.export.onnx.exporter import SELF_CONTAINED, onnx_format
from keras_pe.export.onnx.handlers import opsets
from keras_pe.export.parity.unpublished import explain
from keras_pe.export.pipeline.request import Request
from keras_pe.export.pipeline.stages import export
from keras_pe.protocols import Model


def export_onnx(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    opset_version: int = opsets.DEFAULT,
    external_data_threshold: int = SELF_CONTAINED,
    half_precision: bool = False,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to ONNX.

    The file is published only after ONNX's checker and strict shape inference have passed and ONNX Runtime has returned
    from it what Keras returns, at sizes that were not traced. Until then, and if anything fails, what stood at
    `filepath` stays.

    Args:
        model: A built `keras.Model`, or the path of a `.keras` or `.h5` file of one. On another backend than TensorFlow
            it is saved, and exported by a process of its own; its layers must be ones that another process can import.
        filepath: The `.onnx` file to write. Any name will do but that of another format's file.
        input_signature: See `model_signature`; needed for most subclassed models. A size that is free in it stays free.
            Without it, a size is fixed if Keras cannot trace the model with that size free; a note says so.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        inputs: Examples of what the model takes, where it does not take any values: a mapping of names to arrays, or an
            `.npz` file, one or several. The artifact is compared on these, and tells them to `check_parity`.
        ranges: The fair values of an input: the least, and the first above that is not fair. The artifact tells them to
            `check_parity`.
        border: What the artifact takes and returns where that is not what the model does: another layout or type, a
            preparation of inputs, some of the outputs or decisions on them. `sizes`, `inputs` and `ranges` are then the
            artifact's. The artifact records the border, and a check reads it there.
        opset_version: The ONNX operator set, 15 to 25.
        external_data_threshold: Bytes of weights above which they are written to a file beside the model, named
            `<file>.<hash of its content>.data`. Below, the one file holds everything.
        half_precision: Export in float16, a model in bfloat16 too, whose range is wider. Otherwise a model in float16
            or bfloat16 is exported as a float32 rebuild with the same weights. A note of the artifact says so.
        progress: Called with the name of each stage when it starts; True shows a bar.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound ONNX form; its class tells why, its attributes name the layer and the
            operator.
        ValueError: If an argument is wrong, or the signature is not known.
        TypeError: If an argument is of another type.
        FileExistsError: If something that is not an ONNX file stands at `filepath`.
        ImportError: If a package is missing.
    """
    check_whole("opset_version", opset_version, opsets.EXPORTED[0], opsets.EXPORTED[-1])
    check_whole("external_data_threshold", external_data_threshold, 0)
    check_type("half_precision", half_precision, bool)
    request = Request(model, filepath, input_signature, sizes, inputs, ranges, border, progress)
    return export(onnx_format(opset_version, external_data_threshold, half_precision), request, explain)


def export_saved_model(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to a SavedModel with the signature `serving_default`.

    The folder is published only after TensorFlow has loaded it, without the code of any layer, and it has returned what
    Keras returns, or has run if its calls depend on those before. Until then, and if anything fails, what stood at
    `filepath` stays.

    Args:
        model: A built `keras.Model`, or the path of a `.keras` or `.h5` file of one. On another backend than TensorFlow
            it is saved, and exported by a process of its own; its layers must be ones that another process can import.
        filepath: The folder to write. Any name will do but that of another format's file.
        input_signature: See `model_signature`; needed for most subclassed models. A size that is free in it stays free.
            Without it, a size is fixed if Keras cannot trace the model with that size free; a note says so.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        inputs: Examples of what the model takes, where it does not take any values: a mapping of names to arrays, or an
            `.npz` file, one or several. The artifact is compared on these, and tells them to `check_parity`.
        ranges: The fair values of an input: the least, and the first above that is not fair. The artifact tells them to
            `check_parity`.
        border: What the artifact takes and returns where that is not what the model does: another layout or type, a
            preparation of inputs, some of the outputs or decisions on them. `sizes`, `inputs` and `ranges` are then the
            artifact's. The artifact records the border, and a check reads it there.
        progress: Called with the name of each stage when it starts; True shows a bar.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound form.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not a SavedModel stands at `filepath`.
        ImportError: If a package is missing.
    """
    request = Request(model, filepath, input_signature, sizes, inputs, ranges, border, progress)
    return export(saved_model_format(), request, explain)


def export_litert(
    model: Model | str | os.PathLike[str],
    filepath: str | os.PathLike[str],
    *,
    input_signature: Any = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    inputs: GivenInputs | Sequence[GivenInputs] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    border: Border | None = None,
    progress: Callable[[str], None] | bool | None = None,
) -> Artifact:
    """Exports a Keras model to LiteRT, one of half precision as a float32 rebuild of it.

    The file is published only after LiteRT's interpreter, which has no other operators than the built-in ones, has
    returned from it what Keras returns. Until then, and if anything fails, what stood at `filepath` stays.

    Args:
        model: A built `keras.Model`, or the path of a `.keras` or `.h5` file of one. On another backend than TensorFlow
            it is saved, and exported by a process of its own; its layers must be ones that another process can import.
        filepath: The `.tflite` file to write. Any name will do but that of another format's file.
        input_signature: See `model_signature`; needed for most subclassed models. A size that is free in it stays free.
            Without it, a size is fixed if Keras cannot trace the model with that size free; a note says so.
        sizes: Sizes that a dynamic dimension takes, by its name, where they are not to be found out:
            `{"height": (64, 224)}`.
        inputs: Examples of what the model takes, where it does not take any values: a mapping of names to arrays, or an
            `.npz` file, one or several. The artifact is compared on these, and tells them to `check_parity`.
        ranges: The fair values of an input: the least, and the first above that is not fair. The artifact tells them to
            `check_parity`.
        border: What the artifact takes and returns where that is not what the model does: another layout or type, a
            preparation of inputs, some of the outputs or decisions on them. `sizes`, `inputs` and `ranges` are then the
            artifact's. The artifact records the border, and a check reads it there.
        progress: Called with the name of each stage when it starts; True shows a bar.

    Returns:
        What was written.

    Raises:
        ExportError: If the model has no sound form of built-in operators; the message names the operator.
        ValueError: If an argument is wrong, or the signature is not known.
        FileExistsError: If something that is not a LiteRT file stands at `filepath`.
        ImportError: If a package is missing.
    """
    request = Request(model, filepath, input_signature, sizes, inputs, ranges, border, progress)
    return export(litert_format(), request, explain)
