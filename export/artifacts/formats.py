"""The formats of an export: their keys, labels and suffixes, and how each is told from its bytes."""

import enum
import os
from pathlib import Path

_LITERT_IDENTIFIER = b"TFL3"  # of the flatbuffer, behind the four bytes of its root


class Format(enum.StrEnum):
    """A format that a model is exported to. Its value is its name in `keras.Model.export`."""

    ONNX = "onnx"
    SAVED_MODEL = "tf_saved_model"
    LITERT = "litert"

    @property
    def label(self) -> str:
        """The name that a sentence has for it."""
        return {Format.ONNX: "ONNX", Format.SAVED_MODEL: "SavedModel", Format.LITERT: "LiteRT"}[self]

    @property
    def suffix(self) -> str:
        """What a file of it ends in; a SavedModel is a folder of any name."""
        return {Format.ONNX: ".onnx", Format.SAVED_MODEL: "", Format.LITERT: ".tflite"}[self]

    @classmethod
    def detect(cls, path: str | os.PathLike[str]) -> "Format | None":
        """Returns the format of what stands at a path, told from its content; None where it is none of these."""
        path = Path(path)
        if path.is_dir():
            return cls.SAVED_MODEL if (path / "saved_model.pb").is_file() else None
        if not path.is_file():
            return None
        from keras_pe.export.artifacts.wire_format import is_onnx

        with path.open("rb") as file:
            if file.read(8)[4:] == _LITERT_IDENTIFIER:
                return cls.LITERT
        return cls.ONNX if is_onnx(path) else None

    @classmethod
    def of_suffix(cls, path: str | os.PathLike[str]) -> "Format | None":
        """Returns the format of a file that is yet to be written, None where its name does not say."""
        suffix = Path(path).suffix
        return next((format for format in cls if suffix and format.suffix == suffix), None)
