"""Measures time and memory: runs in turns, the memory of this process, and runs in subprocesses."""

import contextlib
import json
import os
import pkgutil
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parent.parent
Run = Callable[[], object]
# Modules of benchmarks.speed, and the backend of Keras in each.
RUNTIMES = {"in_onnxruntime": "tensorflow", "in_tensorflow": "tensorflow", "in_jax": "jax", "in_torch": "torch"}


def seconds(run: Run, repeats: int = 1) -> float:
    """Returns the time of one run, from so many.

    With a single core it is the processor's time: what else the machine does while it measures does not count. If the
    process may have real-time priority, no other work takes a core from one of its threads during a run.
    """
    clock = time.process_time if len(os.sched_getaffinity(0)) == 1 else time.perf_counter
    is_alone = _schedule(os.SCHED_FIFO, 10)
    try:
        start = clock()
        for _ in range(repeats):
            run()
        spent = clock() - start
    finally:
        _schedule(os.SCHED_OTHER, 0)
    time.sleep(spent if is_alone else 0.0)  # other processes have waited
    return spent / repeats


def _schedule(policy: int, priority: int) -> bool:
    """Gives every thread of this process a scheduling policy, and returns whether the system allows it."""
    try:
        for thread in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):  # the thread has ended
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(priority))
    except OSError:
        return False
    return True


def time_in_turns(
    runs: dict[str, Run], rounds: int = 9, least_seconds: float = 0.004, most_seconds: float = 1.0
) -> dict[str, list[float]]:
    """Returns the seconds of each run: `rounds` values, or as many as fit into `most_seconds`, but three at least.

    The runs take turns in an order drawn anew for each turn, so that other work on the machine affects all of them.
    A run changes the time of the next one. Short ones run several times a turn.
    """
    order = list(runs)
    draw = random.Random(0)
    for run in runs.values():
        run()
    once = {name: max(seconds(run), 1e-6) for name, run in runs.items()}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds):
        draw.shuffle(order)
        for name in order:
            if turn < max(3, most_seconds / once[name]):
                taken[name].append(seconds(runs[name], max(1, round(least_seconds / once[name]))))
    return taken


def time_openings(
    openers: dict[str, Callable[[], Run]], rounds: int, most_seconds: float, openings: int = 8
) -> dict[str, list[float]]:
    """Returns the seconds of runs that take turns, of files that are opened anew for each share of the rounds.

    The address of a file's memory can double the time of each of its runs, so one opening is not enough. A network of
    small products took 0.48 of its own time, and the file that was opened first took 1.09 of it. The order is therefore
    random.

    Args:
        openers: Each opens a file, and returns a run of it.
        rounds: As of `time_in_turns`, of all openings together.
        most_seconds: As of `time_in_turns`, of all openings together.
        openings: How often.
    """
    taken: dict[str, list[float]] = {}
    order = list(openers)
    draw = random.Random(0)
    for _ in range(openings):
        draw.shuffle(order)
        opened = {name: openers[name]() for name in order}
        share = time_in_turns(opened, max(1, rounds // openings), most_seconds=most_seconds / openings)
        fewest = min(map(len, share.values()))  # so that what is measured in one turn stays in one
        for name, values in share.items():
            taken.setdefault(name, []).extend(values[:fewest])
    return taken


def thread_counts(shared: bool = False) -> tuple[int, ...]:
    """Returns on how many threads to measure: one, and two where there are two cores without other work."""
    return (1,) if shared or len(os.sched_getaffinity(0)) < 2 else (1, 2)


def quotient(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """Returns how long one takes over another, in turns: the median of their ratios, and its interval of 95 %.

    Its ends are ratios themselves: as many stand outside as heads may fall in so many throws of a coin.
    """
    ratios = sorted(one / other for one, other in zip(first, second, strict=False))
    outside = max(0, int((len(ratios) - 1.96 * len(ratios) ** 0.5) / 2))
    return median(ratios), ratios[outside], ratios[-1 - outside]


def memory(field: str) -> int:
    """Returns a figure of this process in bytes: VmRSS is what is resident, VmHWM the highest so far (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def run_in_process(
    function: str, *arguments: Any, threads: int | None = None, backend: str = "tensorflow", **options: Any
) -> Any:
    """Returns the result of a function in a process of its own. Its arguments and its result travel as JSON.

    Args:
        function: The function's module in this package and its name, such as `costs:measure`.
        *arguments: Its arguments.
        threads: Processor cores that the process may use; None for all.
        backend: Keras' backend.
        **options: Its arguments by name.

    Raises:
        RuntimeError: If the process fails, with the end of what it said.
    """
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    cores = sorted(os.sched_getaffinity(0))[:threads]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measuring", f"benchmarks.{function}", json.dumps([arguments, options])],
        cwd=ROOT,
        env=environment,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{function} {arguments} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints the result of the function that the first argument names, for the arguments in the second, as JSON."""
    name, given = sys.argv[1:]
    arguments, options = json.loads(given)
    print(json.dumps(pkgutil.resolve_name(name)(*arguments, **options)))


if __name__ == "__main__":
    main()
