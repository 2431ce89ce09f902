"""The error of an export that was refused."""


class ExportError(Exception):
    """The model has no sound form in the format. Nothing was written, and what stood at the destination still does."""

    def __init__(self, kind: str, model: str, reason: str) -> None:
        super().__init__(f"{kind} export of {model!r} stopped: {reason} Nothing was written.")
