"""Fails if a layer has become twice as slow, or the cost of a check grows faster than the depth of a model.

    python -m benchmarks.guard

It measures a few ratios of layers again, against those that are stored, and compares networks of two depths.
Ratios to the formula as most code writes it, of runs that take turns on one thread, hardly depend on the machine. A
ratio over its bound is measured once more, as other work on the machine also raises ratios.
"""

import itertools
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.exporter import depth_cost
from benchmarks.measurement_files import load
from benchmarks.measuring import RUNTIMES, quotient, run_in_process

BOUNDS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("bounds.toml").read_text())["bound"]
OURS = "keras_pe"
DEPTHS = (100, 300)
"""Layers of the networks that are exported and checked; 1,000 and more take minutes."""
BASES = {"sinusoidal": "tensor2tensor", "rotary": "plain formula"}


def check(bounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prints a line for each bound, and returns those that do not hold."""
    stored, _ = load()
    broken = []
    for (encoding, runtime), group in itertools.groupby(
        bounds, key=lambda bound: (bound["encoding"], bound["runtime"])
    ):
        if find_spec(RUNTIMES[runtime]) is None:
            print(f"{encoding}, {runtime}: left out, {RUNTIMES[runtime]} is not installed", flush=True)
            continue
        together = list(group)
        found = _measure(encoding, runtime, [bound["case"] for bound in together])
        for bound in together:
            usual, now = (_ratio(figures, bound) for figures in (stored, found))
            holds = now <= bound["factor"] * usual
            print(f"{bound['case']}: {now:.2f}, usually {usual:.2f}, at most {bound['factor'] * usual:.2f}", end="")
            print("" if holds else f"  TOO SLOW. {bound['reason']}", flush=True)
            if not holds:
                broken.append(bound)
    return broken


def _measure(encoding: str, runtime: str, cases: list[str]) -> dict[str, list[float]]:
    found: dict[str, dict[str, list[float]]] = run_in_process(
        "speed.worker:measure",
        runtime,
        encoding,
        threads=1,
        backend=RUNTIMES[runtime],
        modes=[*dict.fromkeys(case.split("/")[0] for case in cases)],
        cases=[*map(_short, cases)],
        contestants=[BASES[encoding], OURS],
    )
    return found["seconds"]


def _short(case: str) -> str:
    _, _, scenario, shape = case.split("/")
    return f"{scenario}:{shape.replace('x', ':')}"


def _ratio(values: dict[str, list[float]], bound: dict[str, Any]) -> float:
    ours, base = (values[f"{bound['case']}/{each}"] for each in (OURS, BASES[bound["encoding"]]))
    return quotient(ours, base)[0]


def is_linear() -> bool:
    """Prints what networks of two depths cost, and returns whether a layer of the deeper one costs about the same."""
    ratios, passed = depth_cost.compare(DEPTHS)
    holds = passed and max(ratios.values()) <= depth_cost.MOST
    print("" if holds else f"TOO SLOW. A layer may cost {depth_cost.MOST:g} times as much at most.", flush=True)
    return holds


def main() -> None:
    """Exits with 1 if a bound is broken twice."""
    broken = check(BOUNDS)
    if broken:
        print("once more:")
        broken = check(broken)
    sys.exit(1 if broken or not (is_linear() or is_linear()) else 0)


if __name__ == "__main__":
    main()
