"""Writes records as JSON, and derives their JSON Schema from the record classes."""

import dataclasses
import inspect
import json
import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

_FIGURE = {
    "description": "A number; a text where it is not finite.",
    "anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}],
}
_VALUE = {
    "description": "A value of an array: numbers, texts and booleans, nested as the axes are.",
    "anyOf": [
        {"$ref": "#/$defs/figure"},
        {"type": "string"},
        {"type": "boolean"},
        {"type": "array", "items": {"$ref": "#/$defs/value"}},
    ],
}


@dataclass(frozen=True)
class Published:
    """A kind of JSON document that others may rely on.

    Attributes:
        name: Name in the identifier.
        title: Title of the schema.
        record: The source record. Its fields, and theirs in turn, become the document's, except fields whose metadata
            has `"published": False`. The properties in the record's `computed` come first.
        version: It grows if a field changes its meaning or is removed. A new field does not change it.
    """

    name: str
    title: str
    record: type
    version: int = 1

    @property
    def id(self) -> str:
        """The identifier of the schema, which every document names."""
        return f"urn:keras-pe:{self.name}:{self.version}"

    def plain(self, record: Any) -> dict[str, Any]:
        """Returns a record as JSON's plain values; NaN and infinities as the texts "NaN", "Infinity", "-Infinity"."""
        return {"schema_version": self.version, **_members(record)}

    def render(self, record: Any) -> str:
        """Returns the whole document as a text."""
        return json.dumps(self.to_document(record), indent=2, allow_nan=False) + "\n"

    def to_document(self, record: Any) -> dict[str, Any]:
        """Returns a record as JSON's plain values, with the name of the schema that they keep."""
        return {"$schema": self.id, **self.plain(record)}

    def schema(self) -> dict[str, Any]:
        """Returns the JSON Schema of what `render` returns."""
        definitions: dict[str, Any] = {}
        found = _record_schema(self.record, definitions)
        version = "The version of this schema: raised when a field changes its meaning or goes."
        properties = {
            "$schema": {"const": self.id},
            "schema_version": {"description": version, "const": self.version},
            **found["properties"],
        }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": self.id,
            "title": self.title,
            **found,
            "properties": properties,
            "required": list(properties),
            "$defs": {"figure": _FIGURE, "value": _VALUE, **definitions},
        }


def _names(record: type) -> tuple[str, ...]:
    """Returns the properties and fields of a record that are written."""
    fields = (field.name for field in dataclasses.fields(record) if field.metadata.get("published", True))
    return (*getattr(record, "computed", ()), *fields)


def _members(record: Any) -> dict[str, Any]:
    return {name: _plain(getattr(record, name)) for name in _names(type(record))}


def _plain(value: Any) -> Any:
    if isinstance(getattr(value, "published", None), Published):  # a document of its own
        return value.published.to_document(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _members(value)
    if isinstance(value, IntEnum):  # its numbers are there to be sorted by
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _record_schema(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a record: its fields, with what its docstring says of each."""
    texts, types_of = _describe(record), get_type_hints(record)
    for name in getattr(record, "computed", ()):
        found = getattr(record, name)
        texts[name], types_of[name] = inspect.getdoc(found) or "", get_type_hints(found.fget)["return"]
    properties = {
        name: {"description": texts.get(name, ""), **_schema_of(types_of[name], definitions)} for name in _names(record)
    }
    return {
        "description": (inspect.getdoc(record) or "").partition("\n")[0],
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a type, and adds the records in it to the definitions. Integers count or number things."""
    plain: dict[Any, dict[str, Any]] = {
        str: {"type": "string"},
        bool: {"type": "boolean"},
        int: {"type": "integer", "minimum": 0},
    }
    if kind in plain:
        return dict(plain[kind])
    if kind is float:
        return {"$ref": "#/$defs/figure"}
    if kind is type(None):
        return {"type": "null"}
    if kind is Any:
        return {"$ref": "#/$defs/value"}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(each, definitions) for each in arguments]}
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    if inspect.isclass(origin) and issubclass(origin, Sequence):
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    if issubclass(kind, IntEnum):
        return {"enum": [each.name.lower() for each in kind]}
    if issubclass(kind, Enum):
        known = {"enum": [each.value for each in kind]}
        pattern = getattr(kind, "pattern", None)  # an open enumeration makes members on demand
        return known if pattern is None else {"anyOf": [known, {"type": "string", "pattern": pattern()}]}
    own = getattr(kind, "published", None)
    if isinstance(own, Published):
        definitions[kind.__name__] = own.schema()
        return {"$ref": own.id}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}  # a record may hold its own kind
        definitions[kind.__name__] = _record_schema(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _describe(record: type) -> dict[str, str]:
    """Returns the description of each attribute in a record's docstring and in those of its base classes."""
    docstrings = "\n".join(inspect.cleandoc(vars(each).get("__doc__") or "") for each in reversed(record.__mro__))
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", docstrings, flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}
