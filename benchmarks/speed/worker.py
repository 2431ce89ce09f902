"""Measures the contestants in one runtime, in this process, and prints the seconds as JSON."""

import argparse
import importlib
import json
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.measuring import Run, time_in_turns, time_openings
from benchmarks.speed import contestants as sinusoids
from benchmarks.speed import rotary_cases, scenarios
from benchmarks.speed.contestants import Contestant
from benchmarks.speed.scenarios import Scenario

ENCODINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sinusoidal": (sinusoids.CONTESTANTS, scenarios.SCENARIOS),
    "rotary": (rotary_cases.CONTESTANTS, rotary_cases.SCENARIOS),
}


def main() -> None:
    """Prints `{"seconds": {name: [...]}, "failed": {name: sentence}}`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runtime", help="module of this package")
    parser.add_argument("--encoding", choices=ENCODINGS, default="sinusoidal")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--modes", nargs="*", help="some of the runtime's; default all")
    parser.add_argument("--cases", nargs="*", help="scenario:batch:length; default all")
    parser.add_argument("--contestants", nargs="*", help="some of them; default all")
    asked = parser.parse_args()
    everyone, ways = ENCODINGS[asked.encoding]
    contestants = [each for each in everyone if each.name in (asked.contestants or [each.name])]
    runtime = importlib.import_module(f"benchmarks.speed.{asked.runtime}")
    found: dict[str, dict[str, Any]] = {"seconds": {}, "failed": {}}
    for mode in asked.modes or runtime.MODES:
        for scenario in ways.values():
            for batch, length in scenario.shapes:
                if asked.cases and f"{scenario.name}:{batch}:{length}" not in asked.cases:
                    continue
                case = f"{mode}/{asked.threads}/{scenario.name}/{batch}x{length}"
                seconds, failed = measure_case(runtime, mode, asked.threads, scenario, (batch, length), contestants)
                found["seconds"] |= {f"{case}/{name}": each for name, each in seconds.items()}
                found["failed"] |= {f"{case}/{name}": reason for name, reason in failed.items()}
    print(json.dumps(found))


def measure_case(
    runtime: Any, mode: str, threads: int, scenario: Scenario, shape: tuple[int, int], contestants: list[Contestant]
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Returns the seconds of each contestant that has an answer to the scenario, and why there are none of others."""
    openers: dict[str, Callable[[], Run]] = {}
    runs: dict[str, Run] = {}
    failed = {}
    for each in contestants:
        if scenario.name not in each.scenarios:
            continue
        opener = partial(runtime.prepare, mode, each, each.inputs(scenario, *shape), scenario.static, threads)
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


if __name__ == "__main__":
    main()
