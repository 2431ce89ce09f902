"""Runs the encodings in compiled JAX, with known shapes."""

import jax

from benchmarks.measuring import Run
from benchmarks.speed.contestants import Contestant
from benchmarks.speed.scenarios import Arrays

MODES = ("JAX, jit",)
OPENINGS = 1  # compiled code stays the same


def prepare(mode: str, contestant: Contestant, inputs: Arrays, static: bool, threads: int) -> Run:
    """Returns a run of a contestant on these inputs."""
    call = contestant.make()
    compiled = jax.jit(lambda tensors: call(**tensors))
    tensors = {name: jax.numpy.asarray(value) for name, value in inputs.items()}
    return lambda: compiled(tensors).block_until_ready()
