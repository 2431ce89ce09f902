"""The record of an input/output adapter in an artifact: JSON, with layers and functions as saved Keras models."""

import base64
import json
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from keras_pe.export.artifacts.json_records import read_record
from keras_pe.export.errors import first_line
from keras_pe.export.model.border import Border, own_signature
from keras_pe.export.model.saved_file import load_model
from keras_pe.export.model.signature.declared_inputs import declared_inputs, name_inputs, output_names
from keras_pe.export.model.signature.fixed_sizes import FixedSizes
from keras_pe.export.model.watch.layer_paths import matched_paths
from keras_pe.export.model.watch.nested_arguments import sanitize, unique
from keras_pe.export.model.watch.temporary_patches import replaced_on_each
from keras_pe.protocols import Model

_MODEL = "model"  # the key of a step that is a Keras model
_STEPS = ("preprocessing", "postprocessing")
_MOST_RECORDED = 2**22  # bytes of a step, compressed
_MOST_UNPACKED = 2**26  # bytes of a step: an untrusted record could unpack to any size
_UNDATED = {"date_saved": ""}  # a date would make the records of equal adapters differ


@dataclass(frozen=True)
class BorderRecord:
    """An adapter that was read from an artifact.

    Attributes:
        text: The JSON of the record. Two records are equal if their texts are.
        border: The adapter.
        depth: The number of nested adapters around the innermost model of the artifact, including this one.
    """

    text: str
    border: Border = field(compare=False)
    depth: int = field(compare=False)

    def around(self, model: Model, input_signature: Any = None, fixed: FixedSizes | None = None) -> tuple[Any, Any]:
        """Wraps the model in the adapter; returns both arguments unchanged if the model has the adapter already.

        Args:
            model: A built `keras.Model`.
            input_signature: See `Border.around`.
            fixed: The sizes that the artifact fixes.

        Returns:
            The model and its input signature, which is None for a wrapped model unless the adapter defines it.
        """
        if border_depth(model) >= self.depth:
            return model, own_signature(model) or input_signature
        outer = self.border.traced_around(model, input_signature, fixed)[0]
        return outer, own_signature(outer)

    def renumber(self, model: Any, inputs: Iterable[str], outputs: Iterable[str]) -> "BorderRecord":
        """Returns the record for a model that was built again, whose automatic names have other numbers.

        Args:
            model: The model. One that does not declare its outputs has no automatic names.
            inputs: The names of the artifact's inputs.
            outputs: The names of the artifact's outputs.
        """
        if not hasattr(model, "output_names") or border_depth(model) >= self.depth:
            return self
        border, returned = self.border, unique(map(sanitize, output_names(model, model.output)))
        taken = {border.inputs.get(name, name): name for name in inputs}
        inner = _renumber_names(name_inputs(declared_inputs(model).names), taken)
        given = {**border.inputs, **{taken[old]: new for old, new in inner.items()}}
        same = {name: name for name in border.outputs or outputs}
        chosen = border.outputs if isinstance(border.outputs, Mapping) else same
        others = _renumber_names(returned, chosen.values())
        if others and border.outputs is None:
            known = {new: old for old, new in others.items()}
            chosen = {known.get(name, name): name for name in returned}
        elif others:
            chosen = {name: others.get(old, old) for name, old in chosen.items()}
        return replace(self, border=replace(border, inputs=given, outputs=chosen if others else border.outputs))


def _renumber_names(names: Sequence[str], others: Iterable[str]) -> Mapping[str, str]:
    """Returns the model's name of each of some other names that differ from it in their number."""
    return {old: new for new, old in matched_paths(names, others).items() if new != old}


def border_depth(model: Any) -> int:
    """Returns the number of adapters around a model. An adapter contains a model of its own name."""
    import keras

    models = (each for each in getattr(model, "layers", ()) if isinstance(each, keras.Model))
    return next((1 + border_depth(each) for each in models if each.name == model.name), 0)


def border_to_json(border: Border, outer: Any, given: Mapping[tuple[str, str], Any]) -> tuple[str, list[str]]:
    """Returns the record of an adapter, and a sentence for each step that cannot be recorded.

    Args:
        border: The adapter.
        outer: The model within the adapter.
        given: The input tensor of each step, by field and name.
    """
    content: dict[str, Any] = {each.name: _plain(getattr(border, each.name)) for each in fields(border)}
    content["depth"] = border_depth(outer)
    lost = []
    for title in _STEPS:
        steps = content[title]
        for name, step in steps.items():
            if isinstance(step, str):
                continue
            try:
                steps[name] = _pack_step(step, given[title, name], f"{title}_{name}")
            except Exception as error:  # Keras or a foreign layer may raise any error
                steps[name] = None
                lost.append(
                    f"The {title} of {name!r} is not recorded in the artifact ({first_line(error)}): give a check the "
                    "same `border` as the export."
                )
    return json.dumps(content, sort_keys=True), lost


def border_from_json(text: str) -> BorderRecord:
    """Returns the adapter that `border_to_json` has recorded.

    Raises:
        ValueError: If the text is not such a record, a step was not recorded, or a step cannot be loaded.
    """
    content, depth, steps = read_record(
        text, lambda own: (own, int(own.pop("depth")), {title: dict(own.pop(title)) for title in _STEPS}), "a border"
    )
    if missing := [f"{title} of {name!r}" for title in _STEPS for name, step in steps[title].items() if step is None]:
        raise ValueError(
            f"has a border without a record of the {' and the '.join(missing)}. "
            "Pass the check the same `border` as the export."
        )
    try:
        content |= {title: {name: _step(step) for name, step in steps[title].items()} for title in _STEPS}
        return BorderRecord(text, Border(**content), depth)
    except (TypeError, ValueError) as error:
        raise ValueError(f"has a border that cannot be read: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _pack_step(step: Callable[[Any], Any], x: Any, name: str) -> dict[str, str]:
    """Returns the saved Keras model of a step, compressed and encoded as text.

    Raises:
        ValueError: If the model is too large.
    """
    import keras

    inputs = keras.Input(batch_shape=x.shape, dtype=x.dtype, name="x")
    model = keras.Model(inputs, step(inputs), name=name)
    operations = [each for each in model.operations if not isinstance(each, keras.Layer)]
    names = [(each, {"name": f"operation_{place}"}) for place, each in enumerate(operations)]
    # Keras numbers operations across all models of a process, so the names of equal steps would differ.
    with tempfile.TemporaryDirectory() as folder, replaced_on_each(names):
        path = Path(folder) / "step.keras"
        model.save(path)
        with zipfile.ZipFile(path) as file:
            files = {each: file.read(each) for each in sorted(file.namelist())}
    files["metadata.json"] = json.dumps(json.loads(files["metadata.json"]) | _UNDATED, sort_keys=True).encode()
    texts = {each: base64.b64encode(content).decode() for each, content in files.items()}
    packed = zlib.compress(json.dumps(texts, sort_keys=True).encode(), 9)
    if len(packed) > _MOST_RECORDED:
        raise ValueError(f"it has {len(packed):,} bytes, at most {_MOST_RECORDED:,} are recorded")
    return {_MODEL: base64.b64encode(packed).decode()}


def _step(step: str | Mapping[str, str]) -> Any:
    """Returns a recorded step: the name of the step, or the saved layer or model.

    Raises:
        ValueError: If the layer or model cannot be loaded.
    """
    import keras

    if isinstance(step, str):
        return step
    unpacking = zlib.decompressobj()
    try:
        content = json.loads(unpacking.decompress(base64.b64decode(step[_MODEL]), _MOST_UNPACKED))
        files = {str(name): base64.b64decode(text) for name, text in content.items()}
    except Exception as error:  # A damaged step may have values of any type, nested to any depth.
        raise ValueError(f"a step is damaged ({first_line(error)})") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.keras"
        with zipfile.ZipFile(path, "w") as file:
            for name, data in files.items():
                file.writestr(name, data)
        try:
            model = load_model(path)
        except ValueError as error:
            message = str(error).removeprefix(f"{path} could not be loaded: ")
            raise ValueError(f"a step cannot be loaded: {message} Or give the check the export's `border`.") from error
    own = [each for each in model.operations if not isinstance(each, keras.layers.InputLayer)]
    return own[0] if len(own) == 1 and isinstance(own[0], keras.Layer) else model
