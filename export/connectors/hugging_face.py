"""The connector to `datasets.Dataset` of Hugging Face: columns by name."""

from collections.abc import Iterator, Sequence
from typing import Any

from keras_pe.export import DataSource

_LISTS = ("List", "LargeList", "Sequence")
_VALUES = ("Value", "ClassLabel", "Array2D", "Array3D", "Array4D", "Array5D")


def open_dataset(data: Any) -> DataSource | None:
    """Opens a `datasets.Dataset`, None for any other object of the package.

    A column that no model takes, such as a picture in a file, is left out.
    """
    import datasets

    if not isinstance(data, datasets.Dataset):
        return None
    columns = tuple(name for name in data.column_names if _holds_values(data.features[name]))
    tables = data.with_format("arrow")

    def read(locator: Any, most: int, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        for table in tables.iter(most):
            yield {name: table.column(name) for name in names}

    return DataSource("datasets.Dataset", columns, read, rows=len(data))


def _holds_values(feature: Any) -> bool:
    """Whether a column holds numbers, texts, or lists of them."""
    kind = type(feature).__name__
    if kind in _LISTS:
        return _holds_values(feature.feature)
    return kind in _VALUES and not str(getattr(feature, "dtype", "")).startswith(("date", "time", "duration"))
