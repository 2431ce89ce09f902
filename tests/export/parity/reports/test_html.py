"""The HTML page: whole, well-formed, self-contained, and deaf to hostile names."""

import dataclasses
import functools
import html.parser
import re

import pytest

from keras_pe.export.parity.reports.document import Picture, PictureAxis, Points
from keras_pe.export.parity.reports.drawing import draw
from tests.export.parity.presentation.samples import ALL, HOSTILE, PASSING
from tests.export.parity.reports.pages import assert_colors_come_from_the_page

_VOID = {"meta", "link", "img", "br", "hr", "input"}
_LOADS = {"src", "srcset", "href", "xlink:href", "action", "data", "poster", "background"}


class Page(html.parser.HTMLParser):
    """Reads a page strictly: every element that is opened is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


@functools.cache
def rendered(name: str) -> tuple[Page, str]:
    text = ALL[name].render("html")
    return Page(text), text


@pytest.fixture(params=ALL)
def page(request):
    return rendered(request.param)


@pytest.mark.quick_rows(1)
def test_the_page_loads_nothing(page):
    parsed, text = page
    for tag, attributes in parsed.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "img", "base"}
        for name in _LOADS & set(attributes):
            assert attributes[name].startswith("#"), (tag, name, attributes[name])
    assert re.findall(r"url\((?!#)|@import", text) == []


def test_every_reference_within_the_page_has_its_one_target(page):
    parsed, text = page
    targets = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    for name in set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)):
        assert "".join(name) in targets


def test_the_pictures_take_every_color_from_the_page(page):
    assert_colors_come_from_the_page(page[1])


def test_a_hostile_name_is_shown_and_not_run():
    parsed, text = rendered("failing")
    shown = "".join(parsed.texts)
    assert "<script" not in text
    assert HOSTILE.splitlines()[0] in shown
    assert "http://evil.example" in shown


def test_each_runtime_has_its_pictures():
    assert rendered("passing")[0].count("svg") == 4  # two runtimes: positions and histogram
    failing = rendered("failing")[0]
    assert failing.count("svg") == 7  # three runtimes with arrays, one of them traced through its layers
    assert "NaN or infinity" in "".join(failing.texts)


@pytest.mark.parametrize(("name", "expected"), [("failing", [1, 1, 0, 1, 1]), ("passing", [1, 0])])
def test_failing_runtimes_are_open_and_passing_ones_are_not(name, expected):
    details = [attributes for tag, attributes in rendered(name)[0].elements if tag == "details"]
    assert ["open" in attributes for attributes in details] == expected


@pytest.mark.slow
def test_a_passing_report_opens_the_artifact_and_not_the_model_itself():
    model = dataclasses.replace(PASSING.results[0], artifact="", format="keras", runtime="keras[graph]")
    report = dataclasses.replace(PASSING, results=(model, *PASSING.results))
    details = [attributes for tag, attributes in Page(report.render("html")).elements if tag == "details"]
    assert ["open" in attributes for attributes in details] == [False, True, False]


def test_beside_long_names_there_is_room_for_four_numbers() -> None:
    far = Points("allowed", (1e-12, 1.0), (0, 1))
    picture = Picture("Layers", "", PictureAxis("error", "log"), PictureAxis("", "names", ("a" * 28, "b")), (far,))
    assert 2 <= len(re.findall(r">1e[+-]\d\d<", draw(picture))) <= 4
