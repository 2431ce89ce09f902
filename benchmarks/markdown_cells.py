"""Numbers and tables in Markdown."""

from collections.abc import Iterable


def two_digits(value: float) -> str:
    """Returns a number with two significant digits."""
    return f"{value:#.2g}".rstrip(".")


def two_decimals(value: float) -> str:
    """Returns a number with two decimals."""
    return f"{value:.2f}"


def byte_count(value: float) -> str:
    """Returns a number of bytes in MB or kB, with three significant digits from 100 kB."""
    return f"{value / 1e6:.3g} MB" if value >= 1e5 else f"{value / 1e3:.1f} kB"


def error_size(value: float) -> str:
    """Returns an error with two significant digits."""
    return f"{value:.1e}".replace("e-0", "e-") if value < 0.1 else f"{value:.2g}"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *([cell.replace("|", "/") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
