"""What goes into the sentence of a refusal: reasons put together, and what another library's error says."""

import re
from collections.abc import Iterable

_IN_A_LAYER = re.compile(r"Exception encountered when calling (\w+\.\w+\(\))\.?")


def joined(sentences: Iterable[str]) -> str:
    """Returns sentences as one text that goes on after a colon, each said once."""
    first, *others = dict.fromkeys(sentences)
    return " ".join([first, *(sentence[0].upper() + sentence[1:] for sentence in others)])


def sentence(said: object) -> str:
    """Returns what somebody else's error says as a sentence: with one full stop at its end, its own or ours."""
    return f"{str(said).rstrip(' .')}."


def first_line(error: BaseException | None) -> str:
    """Returns what an error says in its first line, without the full stop.

    Of an error that Keras raises in a layer, which begins with the layers around it, that is what happened in the last.
    """
    said = re.sub(r"\x1b\[\d+m", "", str(error)).rpartition("Exception encountered: ")[2]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    place = ""
    while len(lines) > 1 and (around := _IN_A_LAYER.fullmatch(lines[0])):
        place = f"{around[1]}: "
        lines.pop(0)
    return f"{place}{lines[0].rstrip('.')}" if lines else type(error).__name__
