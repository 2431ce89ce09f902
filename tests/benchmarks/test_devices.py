"""The table of models for devices has each count, and the reason of each model that does not run as a whole."""

from benchmarks import devices


def test_a_file_that_does_not_run_as_a_whole_has_a_row_with_the_reason() -> None:
    runs = {"litertjs[wasm]": "equal", "litertjs[webgpu]": "It does not load."}
    rows = {
        "keras-hub / A": {"verdict": "written", "operators": 3, "runtimes": runs},
        "keras-hub / B": {"verdict": "written", "operators": 3, "runtimes": runs},
        "keras-hub / C": {"verdict": "written", "operators": 3},
        "keras-hub / D": {"verdict": "written", "operators": 3, "runtimes": dict.fromkeys(runs, "equal")},
    }
    page = devices.render(rows)
    assert "| keras-hub | 4 | 4 | 3 of 3 | 1 of 3 | 1 |" in page
    assert "| WebGPU: It does not load. | A, B |" in page


def test_a_model_that_is_not_written_has_a_row_with_its_reasons() -> None:
    rows = {
        "keras-hub / A": {"verdict": "written", "operators": 3},
        "keras-hub / B": {"verdict": "refused", "reasons": {"WHILE": "WHILE is not in the list.", "ADD": "No."}},
    }
    page = devices.render(rows)
    assert "| keras-hub | 2 | 1 |" in page
    assert "| B | WHILE: WHILE is not in the list. ADD: No. |" in page
