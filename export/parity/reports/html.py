"""A report as one HTML page that loads nothing: style and pictures are in it."""

import importlib.resources
from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from keras_pe import palette
from keras_pe.export.parity.reports import cells, pictures, text
from keras_pe.export.parity.results import ParityReport, RuntimeResult


@dataclass(frozen=True)
class _Picture:
    title: str
    description: str
    svg: Markup


def render(report: ParityReport) -> str:
    """Returns the page. Failing runtimes are open; where all pass, the first one is."""
    source = importlib.resources.files(__package__).joinpath("page.html.j2").read_text("utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source).render(
        report=report,
        remarks=text.remarks(report),
        header=text.HEADER,
        rows=[text.row(result) for result in report.results],
        pictures=[list(_pictures(result)) for result in report.results],
        cells=cells,
        palette=palette,
    )


def _pictures(result: RuntimeResult) -> list[_Picture]:
    """Returns the pictures of the comparison that was profiled, and of the layers."""
    drawn: list[_Picture] = []
    profile = result.profile
    if profile is not None:
        (case,) = (case for case in result.cases if case.case == profile.case)
        (comparison,) = (each for each in case.comparisons if each.output == profile.output)
        where = f"output {profile.output!r} of the case {profile.case!r}"
        words = f"Largest error {cells.number(comparison.max_abs_diff)}, allowed {cells.number(comparison.allowed)}."
        svg = pictures.draw_positions(profile, comparison)
        drawn.append(_Picture(f"Error by position, {where}", words, Markup(svg)))
        counts = f"{profile.equal:,} of {comparison.count:,} values do not differ at all"
        if profile.unbounded:
            counts += f"; {profile.unbounded:,} are NaN or infinite on one side only"
        histogram = pictures.draw_histogram(profile, comparison)
        drawn.append(_Picture(f"Error histogram, {where}", f"{counts}.", Markup(histogram or "")))
    if result.layers:
        first = result.first_parted_layer
        words = f"The first layer whose output parts is {first!r}." if first else "No layer's output parts."
        words += " At the left end: no difference. At the right end: nothing of this layer's size to compare."
        drawn.append(_Picture("Layer by layer", words, Markup(pictures.draw_layers(result.layers))))
    return drawn
