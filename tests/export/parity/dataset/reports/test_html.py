"""The report of a data set as one page: everything is in it, and its pictures follow light and dark."""

import re

import pytest

from keras_pe.export.parity.dataset.reports.html import render
from tests.export.parity.dataset.reports.samples import ALL
from tests.export.parity.reports.pages import assert_colors_come_from_the_page


@pytest.mark.parametrize("name", ALL)
def test_the_pictures_take_every_color_from_the_page(name: str) -> None:
    assert_colors_come_from_the_page(render(ALL[name]))


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_loaded_and_nothing_of_the_template_is_left(name: str) -> None:
    page = render(ALL[name])
    assert re.findall(r"<(?:script|link|img|iframe)\b|@import|url\((?!#)|{{|{%", page) == []
    verdict = "passed" if ALL[name].passed else "FAILED"
    assert f": {verdict}</title>" in page
