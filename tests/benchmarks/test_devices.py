"""The page on LiteRT quotes the stored rows of the exports for devices."""

from benchmarks import devices


def test_the_page_is_what_the_stored_rows_render_to() -> None:
    assert devices.PAGE.read_text() == devices.page(), "run python -m benchmarks.devices"


def test_a_model_that_is_not_written_has_a_row_with_its_reasons() -> None:
    rows = {
        "keras-hub / A": {"verdict": "written", "operators": 3},
        "keras-hub / B": {"verdict": "refused", "reasons": {"WHILE": "WHILE is not in the list.", "ADD": "No."}},
    }
    page = devices.render(rows)
    assert "| keras-hub | 2 | 1 |" in page
    assert "| B | WHILE: WHILE is not in the list. ADD: No. |" in page
