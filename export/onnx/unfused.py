"""What ONNX has one operator for and a file computes in several: in which layers, and why."""

import json
from collections.abc import Callable


class Unfused:
    """The reasons, noted while a model is traced."""

    def __init__(self) -> None:
        self._noted: list[tuple[str, str, str]] = []

    def note(self, operator: str, reason: str) -> None:
        """Notes that the layer which is traced now computes an operator in several."""
        import tensorflow as tf

        self._noted.append((f"{tf.get_current_name_scope()}/", operator, reason))

    def to_json(self, path_of: Callable[[str], str]) -> str | None:
        """Returns the metadata of a file: reasons by operator by layer; None where there are none.

        Args:
            path_of: Returns the path of the layer that a scope of TensorFlow's belongs to.
        """
        reasons: dict[str, dict[str, str]] = {}
        for scope, operator, reason in self._noted:
            reasons.setdefault(path_of(scope), {})[operator] = reason
        return json.dumps(reasons, sort_keys=True) if reasons else None
