"""Named arrays that are read one by one, or in pieces: the weights of a large model do not fit a second time."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from keras_pe.export.runtimes.runtime import Array


class LazyArrays(Mapping[str, Array]):
    """Arrays by name, each read whenever it is asked for, and not kept."""

    def __init__(
        self,
        names: Iterable[str],
        read: Callable[[str], Array],
        read_pieces: Callable[[str], Iterator[Array]] | None = None,
    ) -> None:
        """Knows the names, and reads nothing yet.

        Args:
            names: In the order in which they are to come.
            read: Returns the array of a name.
            read_pieces: Returns the rows of an array in their order, a few at a time; by default all at once.
        """
        self._names = dict.fromkeys(names)
        self._read, self._read_pieces = read, read_pieces

    @classmethod
    def of(cls, arrays: Mapping[str, Array]) -> "LazyArrays":
        """Returns arrays as lazy ones, which they may be already."""
        return arrays if isinstance(arrays, cls) else cls(arrays, arrays.__getitem__)

    def only(self, names: Iterable[str]) -> "LazyArrays":
        """Returns those of some names."""
        return LazyArrays(names, self._read, self._read_pieces)

    def pieces(self, name: str) -> Iterator[Array]:
        """Yields the rows of an array in their order, a few at a time; a number as it is."""
        if self._read_pieces is None:
            yield self[name]
        else:
            yield from self._read_pieces(name)

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names
