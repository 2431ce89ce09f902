"""PyTorch: eager, and compiled with unknown sizes."""

import torch

from benchmarks.measuring import Run
from benchmarks.speed.contestants import Contestant
from benchmarks.speed.scenarios import Arrays

MODES = ("PyTorch, eager", "PyTorch, compiled")


def prepare(mode: str, contestant: Contestant, inputs: Arrays, static: bool, threads: int) -> Run:
    """Returns a run of a contestant on these inputs."""
    torch.set_num_threads(threads)
    call = contestant.make()
    if mode == MODES[1]:
        torch._dynamo.config.recompile_limit = 1000  # beyond it PyTorch runs what it was to compile as it is
        call = torch.compile(call, dynamic=not static)
    tensors = {name: torch.from_numpy(value) for name, value in inputs.items()}

    def run() -> None:
        with torch.inference_mode():
            call(**tensors)

    return run
