"""The table of what a file is made of: a row for each layer, the sums below."""

import io

import pytest
from rich.console import Console

from keras_pe.cli.artifact_tables import contents_table
from keras_pe.export.artifacts.onnx_contents import LayerContents, Term
from keras_pe.export.artifacts.rewrite import Rewrite


def layer(name: str, multiplications: tuple[Term, ...] | None) -> LayerContents:
    return LayerContents(name, {"Conv": 1}, 8, 32, multiplications, {})


@pytest.mark.parametrize(
    ("of_layers", "whole"),
    [
        ([((32, ("batch",)),), (), ((10, ("batch",)),)], "42·batch"),  # one between them multiplies nothing
        ([((32, ("batch",)),), None], "unknown"),
    ],
)
def test_the_multiplications_of_all_are_the_sum_of_those_of_layers(
    of_layers: list[tuple[Term, ...] | None], whole: str
) -> None:
    out = io.StringIO()
    Console(file=out, width=120).print(contents_table([layer(str(i), each) for i, each in enumerate(of_layers)]))
    last = next(line for line in out.getvalue().splitlines() if " all " in line)
    assert last.split("│")[-2].strip() == whole


def test_the_lines_of_a_users_code_stand_beside_fused_and_unfused_operations() -> None:
    own = LayerContents("own", {"MatMul": 2}, 8, 32, (), {"Attention": "why", "LSTM": "because"})
    rewrites = [
        *(Rewrite("own", "Attention", "why", "/home/me/decoder.py", line) for line in (31, 42)),
        Rewrite("own", "Clip", "", "/home/me/decoder.py", 7),
        Rewrite("own", "MatMul", "", None, None),
        Rewrite("other", "Clip", "", "/home/me/other.py", 8),
    ]
    out = io.StringIO()
    Console(file=out, width=250).print(contents_table([own], rewrites))
    row = next(line for line in out.getvalue().splitlines() if "own" in line)
    assert [cell.strip() for cell in row.split("│")[-3:-1]] == [
        "LSTM: because; Attention: why (decoder.py, line 31) (decoder.py, line 42)",
        "Clip (decoder.py, line 7)",
    ]
