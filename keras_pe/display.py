"""Displays results at a prompt and in a notebook, and suggests similar names for errors."""

import difflib
import html
import re
from collections.abc import Iterable, Mapping

# Characters that control a terminal, end a line, or reverse the direction of reading.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Returns a text with each character that controls a terminal written as Python writes it, such as `\\x1b`.

    Tabs and line breaks stay. A name in a model may hold any character.
    """
    return _CONTROLS.sub(lambda found: repr(found[0])[1:-1], text)


class Shown:
    """A result that a prompt shows in one line; a subclass defines the line and the table.

    A dataclass needs `repr=False`, or it writes its own.
    """

    def _one_line(self) -> str:
        """Returns the line: everything in the table, unless a subclass shortens it."""
        return ", ".join(f"{name} {value}" for name, value in self.details().items())

    def details(self) -> Mapping[str, str]:
        """Returns what a notebook shows, by name."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {printable(' '.join(self._one_line().split()))}>"

    def _repr_html_(self) -> str:
        rows = ((html.escape(name), html.escape(value)) for name, value in self.details().items())
        return f"<table>{''.join(f'<tr><th>{name}</th><td>{value}</td></tr>' for name, value in rows)}</table>"

    def _repr_markdown_(self) -> str:
        cells = {name: " ".join(value.replace("|", chr(92) + "|").split()) for name, value in self.details().items()}
        rows = (f"| {name} | {value} |" for name, value in cells.items())
        return "\n".join([f"| {type(self).__name__} | |", "| --- | --- |", *rows])


_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20))


def shown_bytes(count: int) -> str:
    """Returns a number of bytes as people read it."""
    unit, scale = next(((unit, scale) for unit, scale in _UNITS if count >= scale), ("KiB", 2**10))
    return f"{count / scale:.1f} {unit}"


def did_you_mean(name: object, names: Iterable[str], cutoff: float = 0.6) -> str:
    """Returns the question that ends an error about a name: whether the nearest was meant; empty if none is near."""
    near = difflib.get_close_matches(str(name), list(names), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""
