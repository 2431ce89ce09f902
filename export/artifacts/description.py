"""What an artifact says about itself where its format has no words for it, as JSON."""

import json
from dataclasses import asdict
from typing import Any

from keras_pe.export.artifacts.artifact import Artifact, TensorInfo


def to_json(artifact: Artifact) -> str:
    """Returns the names of dimensions, the order of the tensors, the notes and the metadata."""
    tensors = {key: [asdict(info) for info in getattr(artifact, key)] for key in ("inputs", "outputs")}
    content = {**tensors, "notes": list(artifact.notes), "metadata": dict(artifact.metadata)}
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def from_json(text: str) -> dict[str, Any]:
    """Returns the same as arguments of `Artifact`.

    Raises:
        ValueError: If the text is not what `to_json` wrote.
    """
    try:
        content = json.loads(text)
        tensors = {
            key: tuple(TensorInfo(str(info["name"]), tuple(info["shape"]), str(info["dtype"])) for info in content[key])
            for key in ("inputs", "outputs")
        }
        return {**tensors, "notes": tuple(map(str, content["notes"])), "metadata": dict(content["metadata"])}
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"has a description that cannot be read ({type(error).__name__}: {error}).") from error
