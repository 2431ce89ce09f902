"""Measures the contestants in one runtime, in this process."""

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks.measuring import Run, time_in_turns, time_openings
from benchmarks.speed.contestants import CONTESTANTS, Contestant
from benchmarks.speed.scenarios import SCENARIOS, Scenario


def measure(
    module: str,
    encoding: str = "sinusoidal",
    threads: int = 1,
    modes: Sequence[str] = (),
    cases: Sequence[str] = (),
    contestants: Sequence[str] = (),
) -> dict[str, Any]:
    """Returns `{"seconds": {name: [...]}, "failed": {name: sentence}}`.

    Args:
        module: The runtime, a module of this package.
        encoding: A key of `CONTESTANTS`.
        threads: The number of threads.
        modes: Some of the runtime's modes; all by default.
        cases: Some cases, as `scenario:batch:length`; all by default.
        contestants: Some contestants by name; all by default.
    """
    chosen = [each for each in CONTESTANTS[encoding] if each.name in (contestants or [each.name])]
    runtime = importlib.import_module(f"benchmarks.speed.{module}")
    found: dict[str, dict[str, Any]] = {"seconds": {}, "failed": {}}
    for mode in modes or runtime.MODES:
        for scenario in SCENARIOS[encoding]:
            for batch, length in scenario.shapes:
                if cases and f"{scenario.name}:{batch}:{length}" not in cases:
                    continue
                case = f"{mode}/{threads}/{scenario.name}/{batch}x{length}"
                able = [each for each in chosen if each.lacks != scenario.name]
                seconds, failed = measure_case(runtime, mode, threads, scenario, (batch, length), able)
                found["seconds"] |= {f"{case}/{name}": each for name, each in seconds.items()}
                found["failed"] |= {f"{case}/{name}": reason for name, reason in failed.items()}
    return found


def measure_case(
    runtime: Any, mode: str, threads: int, scenario: Scenario, shape: tuple[int, int], contestants: list[Contestant]
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Returns the seconds of each contestant, and the reasons of contestants that fail."""
    openers: dict[str, Callable[[], Run]] = {}
    runs: dict[str, Run] = {}
    failed = {}
    for each in contestants:
        opener = partial(runtime.prepare, mode, each, scenario.inputs(*shape), scenario.static, threads)
        try:
            run = opener()
            run()
        except Exception as error:  # whatever a compiler raises: the others are measured all the same
            failed[each.name] = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        else:
            openers[each.name], runs[each.name] = opener, run
    if runtime.OPENINGS == 1:
        return time_in_turns(runs), failed
    return time_openings(openers, 3 * runtime.OPENINGS, most_seconds=2.0, openings=runtime.OPENINGS), failed
