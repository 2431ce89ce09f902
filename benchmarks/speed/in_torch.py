"""Runs the encodings in PyTorch: eagerly, and compiled with unknown sizes."""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measuring import Run
from benchmarks.speed.contestants import Contestant
from benchmarks.speed.scenarios import Arrays

MODES = ("PyTorch, eager", "PyTorch, compiled")
OPENINGS = 1  # compiled code stays the same


def prepare(mode: str, contestant: Contestant, inputs: Arrays, static: bool, threads: int) -> Run:
    """Returns a run of a contestant on these inputs."""
    torch.set_num_threads(threads)
    call = contestant.make()
    tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}
    if mode == MODES[1]:
        torch._dynamo.config.recompile_limit = 1000  # beyond it PyTorch runs what it was to compile as it is
        call(**tensors)  # a layer of a model is built when that is compiled
        call = torch.compile(_compile_separately(call), dynamic=not static)

    def run() -> None:
        with torch.inference_mode():
            call(**tensors)

    return run


def _compile_separately(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a call of this by code that no other has: PyTorch looks what it compiled up by the code."""

    def run(**tensors: Any) -> Any:
        return call(**tensors)

    run.__code__ = run.__code__.replace()
    return run
