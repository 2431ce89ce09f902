"""Fails when a change makes the layer about twice as slow: measures a few ratios again, against those that are stored.

    python -m benchmarks.guard

Ratios to tensor2tensor's formula, of runs that take turns on one thread, hardly depend on the machine. What is over its
bound is measured once more: other work on the machine makes ratios larger, too.
"""

import itertools
import sys
import tomllib
from pathlib import Path
from typing import Any

from benchmarks.measuring import in_own_process, quotient
from benchmarks.results import load

BOUNDS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("bounds.toml").read_text())["bound"]
CONTESTANTS = ("tensor2tensor", "keras_pe")


def check(bounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prints a line for each bound, and returns those that do not hold."""
    stored, _ = load()
    broken = []
    for runtime, group in itertools.groupby(bounds, key=lambda bound: bound["runtime"]):
        together = list(group)
        found = _measured(runtime, [bound["case"] for bound in together])
        for bound in together:
            usual, now = (_ratio(figures, bound["case"]) for figures in (stored, found))
            holds = now <= bound["factor"] * usual
            print(f"{bound['case']}: {now:.2f}, usually {usual:.2f}, at most {bound['factor'] * usual:.2f}", end="")
            print("" if holds else f"  TOO SLOW. {bound['reason']}", flush=True)
            if not holds:
                broken.append(bound)
    return broken


def _measured(runtime: str, cases: list[str]) -> dict[str, list[float]]:
    arguments = [runtime, "--modes", *dict.fromkeys(case.split("/")[0] for case in cases)]
    arguments += ["--cases", *(_short(case) for case in cases), "--contestants", *CONTESTANTS]
    found: dict[str, dict[str, list[float]]] = in_own_process("benchmarks.speed.worker", arguments, threads=1)
    return found["seconds"]


def _short(case: str) -> str:
    _, _, scenario, shape = case.split("/")
    return f"{scenario}:{shape.replace('x', ':')}"


def _ratio(values: dict[str, list[float]], case: str) -> float:
    base, ours = (values[f"{case}/{each}"] for each in CONTESTANTS)
    return quotient(ours, base)[0]


def main() -> None:
    """Exits with 1 if a bound is broken twice."""
    broken = check(BOUNDS)
    if broken:
        print("once more:")
        broken = check(broken)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
