"""A file that holds no model of Keras is named by its content, with the way to a model."""

import json
import os
import re
import zipfile
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest

from keras_pe.export.model.foreign_file import describe_foreign
from keras_pe.export.model.saved_file import load_model


def save(folder: Path) -> dict[str, Path]:
    """Returns files and folders that newcomers bring, by a word that their description has."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    found = {}

    def add(word: str, name: str, content: bytes | None = None) -> Path:
        found[f"{word}|{name}"] = path = folder / name
        path.parent.mkdir(exist_ok=True)
        if content is not None:
            path.write_bytes(content)
        return path

    model.save_weights(add("weights of a model, without", "m.weights.h5"))
    add("weights of a model, without", "renamed.h5", (folder / "m.weights.h5").read_bytes())
    add("list of the files", "m.weights.json", b"{}")
    with h5py.File(add("weights of a model that Keras 2.11.0", "keras2.h5"), "w") as file:
        file.attrs.update(layer_names=[b"dense"], keras_version=b"2.11.0")
    with h5py.File(add("without a model of Keras", "other.h5"), "w") as file:
        file["x"] = np.zeros(3)
    add("TensorFlow checkpoint", "ckpt-1.index", b"\0")
    add("TensorFlow checkpoint", "ckpt-1")
    add("TensorFlow checkpoint", "ckpt-1.data-00000-of-00001", b"\0")
    add("list of a folder of TensorFlow", "checkpoint", b'model_checkpoint_path: "ckpt-1"')
    add("SavedModel", "saved/saved_model.pb", b"\0")
    found["SavedModel|saved"] = found.pop("SavedModel|saved/saved_model.pb").parent
    add("Keras 2", "saved2/saved_model.pb", b"\0")
    add("Keras 2", "saved2/keras_metadata.pb", b"\0")
    found["SavedModel folder that Keras 2|saved2"] = found.pop("Keras 2|saved2/saved_model.pb").parent
    del found["Keras 2|saved2/keras_metadata.pb"]
    with zipfile.ZipFile(add("PyTorch", "m.pt"), "w") as file:
        file.writestr("archive/data.pkl", "")
    add("PyTorch", "old.pth", b"\x80\x02")
    add("gzip", "m.keras.gz", b"\x1f\x8b")
    with zipfile.ZipFile(add("zip file around a model", "m.zip"), "w") as file:
        file.writestr("models/m.keras", "")
    add("safetensors", "m.safetensors", b"\x02\0\0\0\0\0\0\0{}")
    add("Git LFS", "pointer.keras", b"version https://git-lfs.github.com/spec/v1\n")
    add("web page", "page.h5", b"<!DOCTYPE html>")
    add("empty", "empty.keras", b"")
    os.mkfifo(add("a pipe", "pipe.keras"))
    add("configuration of a model", "m.json", model.to_json().encode())
    model.save(folder / "sound.h5")
    model.save(folder / "sound.keras")
    add("HDF5 file under a name", "hdf5.keras", (folder / "sound.h5").read_bytes())
    add(".keras file under another name", "zip.h5", (folder / "sound.keras").read_bytes())
    add("not a whole .keras", "cut.keras", (folder / "sound.keras").read_bytes()[:-30])
    add("not whole", "cut.h5", (folder / "sound.h5").read_bytes()[:3000])
    return found


def test_a_file_without_a_model_is_named_by_its_content(tmp_path: Path) -> None:
    for key, path in save(tmp_path).items():
        word = key.partition("|")[0]
        with pytest.raises(ValueError, match=word):
            load_model(path)
    for name in ("sound.keras", "sound.h5", "missing.keras"):
        assert describe_foreign(tmp_path / name) == ""


def test_the_code_for_a_tensorflow_checkpoint_restores_it(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    saved = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    tf.train.Checkpoint(model=saved).save(tmp_path / "step")
    names = ("step-1", "step-1.index", "step-1.data-00000-of-00001", "checkpoint", ".")
    for name in names:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        (code,) = re.findall(r"tf\.train\.Checkpoint\(.*?matched\(\)", describe_foreign(tmp_path / name))
        eval(code, {"tf": tf, "model": model})
        np.testing.assert_array_equal(model.get_weights()[0], saved.get_weights()[0])


def old_file(path: Path, layer: dict[str, object], weights: dict[str, np.ndarray]) -> Path:
    """Writes a file as Keras 2 does: another name of the input's shape, and weights under names that end in ":0"."""
    given = {"batch_input_shape": [None, 3], "dtype": "float32", "sparse": False, "ragged": False, "name": "i"}
    layers = [{"class_name": "InputLayer", "config": given}, layer]
    config = {"class_name": "Sequential", "config": {"name": "s", "layers": layers}}
    with h5py.File(path, "w") as file:
        file.attrs.update(keras_version=b"2.11.0", backend=b"tensorflow", model_config=json.dumps(config).encode())
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [b"d"]
        own = group.create_group("d")
        own.attrs["weight_names"] = [f"d/{name}:0".encode() for name in weights]
        for name, array in weights.items():
            own[f"d/{name}:0"] = array
    return path


def test_a_file_of_keras_2_loads_or_names_its_version(tmp_path: Path) -> None:
    kernel = np.arange(6, dtype=np.float32).reshape(3, 2)
    dense = {"class_name": "Dense", "config": {"name": "d", "units": 2, "use_bias": False}}
    model = load_model(old_file(tmp_path / "dense.h5", dense, {"kernel": kernel}))
    np.testing.assert_array_equal(model.get_weights()[0], kernel)
    local = {"class_name": "LocallyConnected1D", "config": {"name": "d"}}
    path = old_file(tmp_path / "local.h5", local, {"kernel": kernel + 1})
    with pytest.raises(ValueError, match=r"Keras 2\.11\.0 saved the file") as refusal:
        load_model(path)
    (weights,) = re.findall(r"model\.load_weights\('(.*?)'\)", str(refusal.value))
    model.load_weights(weights)
    np.testing.assert_array_equal(model.get_weights()[0], kernel + 1)


@pytest.mark.parametrize("size", [2**28, 3 * 2**30])
def test_a_file_that_unpacks_to_far_more_is_refused_before_it_is_unpacked(tmp_path: Path, size: int) -> None:
    path = tmp_path / "bomb.keras"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("config.json", bytes(2**20))
        entry = file.getinfo("config.json")
    content = path.read_bytes()  # the directory claims another size than what is packed
    path.write_bytes(content.replace(entry.file_size.to_bytes(4, "little"), size.to_bytes(4, "little")))
    with pytest.raises(ValueError, match="unpacks to"):
        load_model(path)


def test_datasets_that_claim_far_more_than_the_file_holds_are_refused(tmp_path: Path) -> None:
    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "a") as file:
        file["model_weights"].create_dataset("claimed", (2**40,), "float32", chunks=(2**20,))
    with pytest.raises(ValueError, match=r"unpacks to 4\.0 TiB"):
        load_model(tmp_path / "m.h5")
