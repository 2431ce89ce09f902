"""Lists the rules of devices for LiteRT files, with their sources, as tables in docs/how-to/litert.md.

Usage: python docs/device_rules.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "how-to" / "litert.md"
BEGIN, END = "<!-- rules: written by docs/device_rules.py -->", "<!-- end of rules -->"


def rule_table() -> str:
    """Returns a row for each rule, with a link to its source for each target."""
    from keras_pe.export.formats.litert_targets import RULES, TARGETS

    lines = [f"| rule | {' | '.join(f'`{name}`' for name in TARGETS)} |", "| --- |" + " --- |" * len(TARGETS)]
    for name, text in RULES.items():
        cells = [f"[yes]({each.sources[name]})" if name in each.sources else "unknown" for each in TARGETS.values()]
        lines.append(f"| {text} | {' | '.join(cells)} |")
    lists = [", ".join(f"[{each.name}]({each.source})" for each in target.lists) for target in TARGETS.values()]
    return "\n".join([*lines, f"| The operator is in the list. | {' | '.join(lists)} |"])


def operator_table() -> str:
    """Returns a row for each operator, with a mark for each list that has it."""
    from keras_pe.export.formats.litert_targets import TARGETS

    lists = {each.name: each for target in TARGETS.values() for each in target.lists}
    kinds = sorted(frozenset.union(*(each.operators for each in lists.values())))
    lines = [f"| operator | {' | '.join(lists)} |", "| --- |" + " --- |" * len(lists)]
    for kind in kinds:
        marks = ["yes" if kind in each.operators else "" for each in lists.values()]
        lines.append(f"| `{kind}` | {' | '.join(marks)} |")
    return "\n".join(lines)


def page() -> str:
    """Returns docs/how-to/litert.md with the tables of this moment."""
    from keras_pe.export.formats.litert_targets import DATE

    before, _, rest = PAGE.read_text().partition(BEGIN)
    tables = f"Read in {DATE}:\n\n{rule_table()}\n\n### The lists of operators\n\n{operator_table()}"
    return f"{before}{BEGIN}\n{tables}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(page())
