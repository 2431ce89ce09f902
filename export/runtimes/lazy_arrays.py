"""Named arrays that are read one by one: the weights of a model of several GiB do not fit a second time."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from keras_pe.export.runtimes.runtime import Array


class LazyArrays(Mapping[str, Array]):
    """Arrays by name, each read whenever it is asked for, and not kept."""

    def __init__(self, names: Iterable[str], read: Callable[[str], Array]) -> None:
        """Knows the names, and reads nothing yet.

        Args:
            names: In the order in which they are to come.
            read: Returns the array of a name.
        """
        self._names = dict.fromkeys(names)
        self._read = read

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
