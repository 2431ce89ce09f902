"""The reasons why layers are exported as several operators, although the format has one for them."""

import traceback
from collections.abc import Callable
from dataclasses import replace

from keras_pe.export.artifacts.rewrite import Rewrite
from keras_pe.export.graph.trace import TRACERS
from keras_pe.export.model.watch.code_places import users_line


class Unfused:
    """The layers that stay several operators, recorded during a trace."""

    def __init__(self) -> None:
        self._noted: list[Rewrite] = []

    def note(self, operator: str, reason: str) -> None:
        """Records that the currently traced layer becomes several operators instead of one."""
        import tensorflow as tf

        file, line = users_line(traceback.extract_stack(), TRACERS) or (None, None)
        self._noted.append(Rewrite(f"{tf.get_current_name_scope()}/", operator, reason, file, line))

    def rewrites(self, path_of: Callable[[str], str]) -> list[Rewrite]:
        """Returns the records.

        Args:
            path_of: Returns the path of the layer of a TensorFlow scope.
        """
        return [replace(each, layer=path_of(each.layer)) for each in dict.fromkeys(self._noted)]
