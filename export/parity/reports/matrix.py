"""The matrix of a check: artifacts down, runtimes across, one cell each."""

from collections.abc import Sequence

from keras_pe.export.parity.reports.cells import Row, number
from keras_pe.export.parity.reports.groups import Group


def matrix(groups: Sequence[Group]) -> list[Row]:
    """Returns the rows, the header first: the verdict of each, and what its worst output is off by.

    Nothing where it would say no more than the table of runtimes: for one artifact.
    """
    artifacts = list(dict.fromkeys(group.artifact for group in groups))
    runtimes = list(dict.fromkeys(group.name for group in groups))
    if len(artifacts) < 2:
        return []
    cells = {(group.artifact, group.name): _cell(group) for group in groups}
    rows = [(artifact, *(cells.get((artifact, runtime), "") for runtime in runtimes)) for artifact in artifacts]
    return [("artifact", *runtimes), *rows]


def _cell(group: Group) -> str:
    verdict = "passed" if group.passed else "FAILED"
    if group.first.status != "compared":
        return f"{verdict}, {group.first.status}"
    return verdict if group.worst is None else f"{verdict} {number(group.worst[2].max_abs_diff)}"


def narrowed(rows: Sequence[Row], width: int) -> list[list[Row]]:
    """Returns the rows in blocks of so many columns as the width holds, each with the artifacts again."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(rows[0]))]
    blocks: list[list[int]] = []
    for column in range(1, len(widths)):
        if not blocks or widths[0] + sum(widths[c] for c in blocks[-1]) + widths[column] > width + 2:
            blocks.append([])
        blocks[-1].append(column)
    return [[(row[0], *(row[column] for column in block)) for row in rows] for block in blocks]
