"""Counts the lines in docs/promises.md, which lists the promise of each file of the six largest parts and its tests.

Usage: python docs/promises.py
"""

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "promises.md"
PARITY = (f"export/parity/{each}" for each in ("diagnosis", "data", "dataset", "work", "statistics"))
FOLDERS = ("export/onnx", "export/graph", "export/model", *PARITY, "benchmarks", "keras_pe/conventions/identification")


def files(patterns: Iterable[str], folder: str = ".") -> dict[Path, int]:
    """Returns the lines of the files in a folder that match patterns without a suffix, by path."""
    matched = (path for pattern in patterns for path in (ROOT / folder).glob(f"{pattern}.py"))
    return {path: len(path.read_text().splitlines()) for path in matched if path.stem != "__init__"}


def page() -> str:
    """Returns the page with the lines of this moment.

    Raises:
        ValueError: If a file is in no row or in two rows, or if a test is missing.
    """
    lines, listed, totals = [], set[Path](), dict[str, list[int]]()
    part, folders = "", list[str]()
    for line in PAGE.read_text().splitlines():
        part = line.removeprefix("## ") if line.startswith("## ") else part
        if line.startswith("| files in"):
            folders = re.findall("`(.+?)`", line)
        if line.startswith("| `"):
            names, promise, tests, _ = (cell.strip() for cell in line.strip("|").split("|"))
            found = files(re.findall("`(.+?)`", names), folders[0])
            missing = [test for test in re.findall("`(.+?)`", tests) if not [*(ROOT / folders[1]).glob(f"{test}*")]]
            if missing or not found or listed & found.keys():
                raise ValueError(
                    f"The row of {names} has no file, a file of another row, or a missing test: {missing}."
                )
            listed |= found.keys()
            count = sum(found.values())
            totals.setdefault(part, [0, 0])
            totals[part][0] += count
            totals[part][1] += count if promise.startswith("\\*") else 0
            line = f"| {names} | {promise} | {tests} | {count:,} |"
        lines.append(line)
    rest = files(f"{folder}/**/*" for folder in FOLDERS).keys() - listed
    if rest:
        raise ValueError(f"Files without a row: {sorted(map(str, rest))}.")
    text = "\n".join(lines) + "\n"
    for name, (count, later) in totals.items():
        text = re.sub(rf"\| {name} \| [\d,]+ \| [\d,]+ ", f"| {name} | {count:,} | {later:,} ", text)
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
