"""Whether a model takes given sizes, and what it returns for them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keras_pe.export.errors import UnknownSizesError
from keras_pe.export.model.sizes.shape_inference import GraphShapes, PartialShape, SymbolicShapes
from keras_pe.export.model.watch.known_values import Filling, KnownValues
from keras_pe.export.model.watch.nesting import FlatModel, StaticShape, leaves
from keras_pe.export.model.watch.recording import state_left_alone

_LARGEST, _MOST_SIZES = 4096, 64  # of the weights: more are those of wide networks, and not asked for


class SizeOracle:
    """A model that is asked, its state left alone.

    Attributes:
        cause: An error of its own, where it did not take something.
    """

    def __init__(self, model: FlatModel, values: KnownValues) -> None:
        self._model = model
        self._values = values
        self._inference: GraphShapes | SymbolicShapes | None = None
        self._taken: dict[tuple[StaticShape, ...], bool] = {}
        self.cause: Exception | None = None

    def takes(self, shapes: Sequence[StaticShape]) -> bool:
        """Returns whether the layers take these shapes, as far as shapes tell.

        Raises:
            UnknownSizesError: If they ask for a number in a tensor, which no size gives.
        """
        asked = tuple(shapes)
        if asked not in self._taken:
            try:
                self._infer(shapes)
                self._taken[asked] = True
            except Exception as error:  # whatever the layers raise
                self.cause = self.cause or error
                if asks_for_a_value(error):
                    raise UnknownSizesError from error
                self._taken[asked] = False
        return self._taken[asked]

    def table_sizes(self) -> tuple[int, ...]:
        """Returns the sizes of the tables that the model reads, where these may end, as far as they are known."""
        return self._inference.table_sizes if self._inference is not None else ()

    @property
    def weight_sizes(self) -> tuple[int, ...]:
        """The sizes of the model's weights, least first, as far as an input may have them."""
        sizes = {int(size) for variable in self._model.variables for size in variable.shape}
        return tuple(sorted(size for size in sizes if 1 < size <= _LARGEST))[:_MOST_SIZES]

    def call(self, shapes: Sequence[StaticShape], filling: Filling) -> Any:
        """Returns what the model returns for plain values of these shapes. What it took is what is known from then on.

        Raises:
            Exception: Whatever the kernels raise.
        """
        values = replace(self._values, filling=filling)
        with state_left_alone():
            results = self._model.call(list(values.plain(self._specs(shapes)).values()))
        self._values = values
        return results

    def runs(self, shapes: Sequence[StaticShape], filling: Filling) -> bool:
        """Returns whether the model runs on plain values of these shapes."""
        try:
            self.call(shapes, filling)
        except Exception:  # whatever the kernels raise
            return False
        return True

    @property
    def filling(self) -> Filling:
        """What the inputs held when the model was last called."""
        return self._values.filling

    @property
    def infers(self) -> bool:
        """Whether the shapes of outputs have been inferred so far, which costs less than a call."""
        return self._inference is not None

    def measure(self, shapes: Sequence[StaticShape]) -> list[StaticShape]:
        """Returns the shapes of the outputs: what cannot be inferred comes from a call.

        Values differ then, so that what counts some of them is no dimension. Neither is what counts the words of a
        text, which are more than any dimension has entries.
        """
        inferred = self._infer(shapes) if self.infers else [None]
        if all(shape is not None and None not in shape for shape in inferred):
            return inferred  # type: ignore[return-value]  # no size is None
        words = 1 + 2 * max((size for shape in shapes for size in shape), default=0)
        run = (self._inference or SymbolicShapes(self._model)).run
        try:
            return shapes_of(run(list(self._values.varied(self._specs(shapes), words).values())))
        except Exception:  # whatever the layers raise where they take none but certain values
            return shapes_of(run(list(self._values.plain(self._specs(shapes), words).values())))

    def _specs(self, shapes: Sequence[StaticShape]) -> dict[str, tuple[StaticShape, str]]:
        return dict(zip(self._model.names, zip(shapes, self._model.dtypes, strict=True), strict=True))

    def _infer(self, shapes: Sequence[StaticShape]) -> list[PartialShape | None]:
        """Returns the shapes of the outputs without running the model."""
        if self._inference is None:
            self._inference = self._start()
        return self._inference(shapes)

    def _start(self) -> GraphShapes | SymbolicShapes:
        import keras

        if keras.backend.backend() == "tensorflow":
            try:
                return GraphShapes(self._model)
            except Exception as error:  # a layer may raise anything where a size is not known
                self.cause = error
        return SymbolicShapes(self._model)


def asks_for_a_value(error: BaseException | None) -> bool:
    """Whether an error says that Python was to find a number in a tensor that has none yet, as TensorFlow words it."""
    return "symbolic" in str(error).lower()


def shapes_of(results: Any) -> list[StaticShape]:
    """Returns the shapes of what a model returned, flat."""
    return [tuple(int(dim) for dim in result.shape) for _, result in leaves(results)]
