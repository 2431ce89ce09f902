"""The error of an export that was refused."""

from collections.abc import Iterable


class ExportError(Exception):
    """The model has no sound form in the format. Nothing was written, and what stood at the destination still does."""

    def __init__(self, kind: str, model: str, reason: str) -> None:
        super().__init__(f"{kind} export of {model!r} stopped: {reason} Nothing was written.")


def joined(sentences: Iterable[str]) -> str:
    """Returns sentences as one text that goes on after a colon, each said once."""
    first, *others = dict.fromkeys(sentences)
    return " ".join([first, *(sentence[0].upper() + sentence[1:] for sentence in others)])
