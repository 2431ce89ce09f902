"""What the report of a data set says, in its forms."""

import re

import pytest

from tests.export.parity.dataset.presentation.samples import ALL
from tests.export.parity.reports.pages import assert_colors_come_from_the_page


@pytest.mark.parametrize("name", ALL)
def test_the_pictures_take_every_color_from_the_page(name: str) -> None:
    assert_colors_come_from_the_page(ALL[name].render("html"))


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_loaded_and_nothing_of_the_template_is_left(name: str) -> None:
    page = ALL[name].render("html")
    assert re.findall(r"<(?:script|link|img|iframe)\b|@import|url\((?!#)|{{|{%", page) == []
    verdict = "passed" if ALL[name].passed else "FAILED"
    assert f": {verdict}</title>" in page
