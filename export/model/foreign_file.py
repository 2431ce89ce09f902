"""Files and folders that Keras cannot load as a model: a description of their content, and the way to a model."""

import json
import re
import zipfile
from pathlib import Path

from keras_pe.export.artifacts.artifact import Format
from keras_pe.export.artifacts.zip_files import check_entries, read_text
from keras_pe.export.model.hdf5_probe import probe_hdf5

SAVE_AGAIN = "Save the model again where it was made."
"""The way out for a damaged file."""

_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK\x03\x04"
_BUILD = (
    "Build the model in Python, call model.load_weights(PATH), save it with model.save('model.keras'), and give that "
    "file."
)
_ASSIGN = (
    "Build the model in Python, assign the weights with set_weights, save it with model.save('model.keras'), and give "
    "that file."
)
_UNPACK = "Unpack it, and give the model in it."
_PYTORCH = (
    "Export the PyTorch model with torch.onnx.export, and check that file. Or build the model in Keras, assign the "
    "weights, save the model as .keras, and give that file."
)
_LOAD_CHECKPOINT = (
    "Build the model in Python, restore the checkpoint with "
    "tf.train.Checkpoint(model=model).restore(CHECKPOINT).assert_existing_objects_matched(), save it with "
    "model.save('model.keras'), and give that file. Keras 3 restores nothing from a checkpoint of Keras 2: do this in "
    "Keras 2 then, and save model.h5."
)
_PICKLE = "a pickle, which is not read because it can run code", "Save the model in it with model.save."
_WEB_PAGE = "a web page, not the file itself", "Download the file again, from its raw address."
_HEADS = {
    b"version https://git-lfs": ("a pointer of Git LFS, not the file itself", "Fetch the file with: git lfs pull"),
    **dict.fromkeys((b"<!doctype html", b"<html"), _WEB_PAGE),
    b"GGUF": ("a GGUF file, which holds the weights of a language model", _ASSIGN),
    b"\x1f\x8b": ("a file that gzip packed", _UNPACK),
    b"model_checkpoint_path:": ("the list of a folder of TensorFlow checkpoints, which hold weights", _LOAD_CHECKPOINT),
}
_LOAD_PRESET = (
    "Load it with from_preset of keras_hub or with keras.saving.load_model, and save it with model.save('model.keras')."
)
_FROM_JSON = (
    "If it is a configuration, make the model with keras.models.model_from_json, load its weights, and save it with "
    "model.save('model.keras')."
)
_SUFFIXES = {
    ".index": ("a TensorFlow checkpoint, which holds weights and no model", _LOAD_CHECKPOINT),
    ".ckpt": ("a checkpoint, which holds weights and no model", _LOAD_CHECKPOINT),
    ".meta": ("the graph of a TensorFlow 1 checkpoint", "Load it in TensorFlow 1 and save a SavedModel folder."),
    ".pb": (
        "a graph of TensorFlow, without the folder of a SavedModel",
        "Give the folder that holds saved_model.pb, or save a SavedModel in TensorFlow.",
    ),
    **dict.fromkeys((".pt", ".pth"), ("a PyTorch file", _PYTORCH)),
    ".bin": ("a file of weights, such as PyTorch writes", _PYTORCH),
    ".safetensors": ("a safetensors file, which holds weights and no model", _PYTORCH),
    ".msgpack": ("a file of weights that Flax writes", _ASSIGN),
    **dict.fromkeys((".pkl", ".pickle", ".joblib"), _PICKLE),
    ".json": ("JSON, which at most holds the configuration of a model and no weights", _FROM_JSON),
}


def describe_foreign(path: Path) -> str:
    """Returns sentences on the content of a path and the way out; an empty text if Keras may have saved it.

    The path of a TensorFlow checkpoint may omit the suffix ".index", as in TensorFlow itself. The function imports
    neither Keras nor TensorFlow, runs no code of the file, and limits the bytes that it reads.
    """
    found = _describe(path)
    if found is None:
        return ""
    what, way_out = found
    way_out = way_out.replace("CHECKPOINT", _checkpoint_argument(path)).replace("PATH", repr(str(path)))
    return f"{path} could not be loaded: it is {what}. {way_out}"


def _checkpoint_argument(path: Path) -> str:
    """Returns the argument that restores a TensorFlow checkpoint: its prefix, or the latest prefix of a folder."""
    if path.is_dir() or path.name == "checkpoint":
        return f"tf.train.latest_checkpoint({str(path if path.is_dir() else path.parent)!r})"
    return repr(re.sub(r"\.(index|data-\d+-of-\d+)$", "", str(path)))


def _describe(path: Path) -> tuple[str, str] | None:
    if path.is_dir():
        return _describe_folder(path)
    if not path.exists():
        return _SUFFIXES[".index"] if Path(f"{path}.index").is_file() else None
    if not path.is_file():  # reading a pipe without a writer never ends
        return "a pipe or a device", "Give the file that model.save has written."
    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        return "empty", "Save the model again."
    for start, found in _HEADS.items():
        if head.lower().startswith(start.lower()):
            return found
    if head.startswith(_HDF5):
        return _describe_hdf5(path)
    if head.startswith(_ZIP):
        return _describe_zip(path)
    if (format := Format.detect(path)) is not None and path.suffix not in _SUFFIXES:
        return (
            f"an exported {format.label} file, not a model of Keras",
            "keras-pe check takes it, keras-pe export does not.",
        )
    if ".data-0" in path.name:
        return _SUFFIXES[".index"]
    if path.name.endswith(".weights.json"):
        return "the list of the files with a model's weights, without the model", _BUILD
    if path.suffix in (".h5", ".hdf5"):
        return "no HDF5 file, or not a whole one", SAVE_AGAIN
    if path.suffix == ".keras":
        return "no .keras file, or not a whole one", SAVE_AGAIN
    return _SUFFIXES.get(path.suffix)


def _describe_folder(path: Path) -> tuple[str, str] | None:
    names = {each.name for each in path.iterdir()}
    if "saved_model.pb" in names:
        by_keras = "keras_metadata.pb" in names
        what = f"a SavedModel folder{' that Keras 2 saved' if by_keras else ''}, whose layers Keras 3 does not load"
        name = "model.h5" if by_keras else "model.keras"
        way_out = "keras-pe check takes it as it is, as MODEL and as ARTIFACTS. To export the model, save it with "
        return what, f"{way_out}model.save('{name}') where it was made, and give that file."
    if "checkpoint" in names or any(name.endswith(".index") for name in names):
        return "a folder of TensorFlow checkpoints, which hold weights and no model", _LOAD_CHECKPOINT
    if names & {"_CHECKPOINT_METADATA", "manifest.ocdbt", "_METADATA"}:
        return "an Orbax checkpoint, which holds weights and no model", _ASSIGN
    if "config.json" in names and any(name.endswith((".safetensors", ".bin")) for name in names):
        way_out = "Load it with from_preset of keras_hub, and save it with model.save('model.keras')."
        return "a folder of Hugging Face", way_out
    if {"config.json", "model.weights.h5"} <= names:
        return "the folder of a preset, or an unpacked .keras file", _LOAD_PRESET
    return "a folder without a model", "Give the file that model.save has written."


def _describe_hdf5(path: Path) -> tuple[str, str] | None:
    if path.suffix == ".keras":
        return "an HDF5 file under a name that ends in .keras", "Rename it to end in .h5."
    try:
        content = probe_hdf5(path)
    except ValueError as error:
        return f"an HDF5 file that is not whole ({error})", SAVE_AGAIN
    if content.configuration is not None:
        return None
    keys, version = content.names, content.version
    if "layer_names" in keys:
        return f"the weights of a model that Keras {version or '2'} saved, without the model", _BUILD
    if keys & {"layers", "_layer_checkpoint_dependencies", "vars", "keras_version"} or path.name.endswith(
        ".weights.h5"
    ):
        return "the weights of a model, without the model", _BUILD
    return "an HDF5 file without a model of Keras", "Save the model with model.save('model.keras'), and give that file."


def _describe_zip(path: Path) -> tuple[str, str] | None:
    try:
        with zipfile.ZipFile(path) as file:
            names = set(file.namelist())
    except Exception:  # a damaged file may raise any error
        return "not a whole .keras file", SAVE_AGAIN
    if "config.json" in names:
        return ("a .keras file under another name", "Rename it to end in .keras.") if path.suffix != ".keras" else None
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in names):
        return "a PyTorch file", _PYTORCH
    if any(name.endswith(".npy") for name in names):
        return "an .npz file of arrays, without a model", _ASSIGN
    if any(name.endswith((".keras", ".h5", ".hdf5", "saved_model.pb")) for name in names):
        return "a zip file around a model", _UNPACK
    return "a zip file without a model of Keras", "Save the model with model.save('model.keras'), and give that file."


def read_configuration(path: Path) -> str:
    """Checks the sizes that a file claims, and returns the JSON of its model.

    Raises:
        ValueError: If the file claims far more than it contains.
        Exception: Any error of the reader of a damaged file.
    """
    if path.suffix in (".h5", ".hdf5"):
        return probe_hdf5(path).configuration or ""
    with zipfile.ZipFile(path) as file:
        check_entries(file)
        return read_text(file, "config.json")


def saved_by(path: Path) -> str:
    """Returns the version of Keras that saved a file, such as "2.15.0"; an empty text if it is not recorded."""
    try:
        if path.suffix in (".h5", ".hdf5"):
            version = probe_hdf5(path).version
        else:
            with zipfile.ZipFile(path) as file:
                version = json.loads(read_text(file, "metadata.json"))["keras_version"]
    except Exception:  # a damaged file may raise any error
        return ""
    return version if isinstance(version, str) and version.partition(".")[0].isdigit() else ""
