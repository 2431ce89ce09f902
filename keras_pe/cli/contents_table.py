"""What an ONNX file is made of, as a table: a row for each layer, the sums below."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_pe.shown import shown_bytes

if TYPE_CHECKING:
    from keras_pe.export.artifacts.contents import LayerContents, Term


def contents_table(contents: "Sequence[LayerContents]") -> Any:
    """Returns the table, which rich prints. Why something stays several operators is a column where anything does."""
    from rich.table import Table
    from rich.text import Text

    from keras_pe.export.artifacts.contents import added

    is_any_unfused = any(each.unfused for each in contents)
    table = Table(
        "layer", "operators", "parameters", "size", "multiplications", *(["unfused"] if is_any_unfused else [])
    )
    for each in contents:
        reasons = "; ".join(f"{operator}: {reason}" for operator, reason in each.unfused.items())
        numbers = _cells(each.operators, each.parameters, each.nbytes, each.multiplications)
        table.add_row(*map(Text, (each.layer or "between layers", *numbers, *([reasons] if is_any_unfused else []))))
    table.add_section()
    operators = sum((Counter(each.operators) for each in contents), Counter())
    terms = [x for each in contents for x in ([None] if each.multiplications is None else each.multiplications)]
    counts = (sum(each.parameters for each in contents), sum(each.nbytes for each in contents))
    table.add_row(*map(Text, ("all", *_cells(operators, *counts, added(terms)))))
    return table


def _cells(
    operators: Mapping[str, int], parameters: int, nbytes: int, multiplications: "Sequence[Term] | None"
) -> tuple[str, ...]:
    counted = ", ".join(name if count == 1 else f"{count} {name}" for name, count in operators.items())
    stored = (f"{parameters:,}", shown_bytes(nbytes)) if nbytes else ("", "")
    return (counted, *stored, _sum(multiplications))


def _sum(multiplications: "Sequence[Term] | None") -> str:
    if multiplications is None:
        return "unknown"
    return " + ".join("·".join([f"{factor:,}", *names]) for factor, names in multiplications)
