"""A report as one HTML page that loads nothing: style and pictures are in it."""

import importlib.resources
from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from keras_pe import palette
from keras_pe.export.parity.reports import cells, pictures, text
from keras_pe.export.parity.reports.groups import group_results
from keras_pe.export.parity.reports.matrix import matrix
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
    groups = group_results(report)
    return environment.from_string(source).render(
        report=report,
        groups=groups,
        statements=[list(text.statements(report, group)) for group in groups],
        remarks=text.remarks(report),
        header=text.HEADER,
        rows=[text.row(group) for group in groups],
        pictures=[_pictures(group.first) for group in groups],
        cells=cells,
        matrix=matrix(groups),
        palette=palette,
    )


def _pictures(result: RuntimeResult) -> list[_Picture]:
    """Returns the pictures of the comparison that was profiled, and of the layers."""
    drawn: list[_Picture] = []
    profile = result.profile
    if profile is not None:
        (case,) = (case for case in result.cases if case.name == profile.case)
        (comparison,) = (each for each in case.comparisons if each.output == profile.output)
        where = f"output {profile.output!r} of the case {profile.case!r}"
        words = f"Largest error {cells.number(comparison.max_abs_diff)}, allowed {cells.number(comparison.tolerance)}."
        svg = pictures.draw_positions(profile, comparison)
        drawn.append(_Picture(f"Error by position, {where}", words, Markup(svg)))
        counts = f"{profile.equal:,} of {comparison.count:,} values do not differ at all"
        if profile.nonfinite:
            counts += f"; {profile.nonfinite:,} are NaN or infinite on one side only"
        histogram = pictures.draw_histogram(profile, comparison)
        drawn.append(_Picture(f"Error histogram, {where}", f"{counts}.", Markup(histogram or "")))
    if result.layers:
        first = result.first_layer_that_differs
        words = f"The first layer whose output differs is {first!r}." if first else "No layer's output differs."
        words += " At the left end: no difference. At the right end: no finite one."
        drawn.append(_Picture("Layer by layer", words, Markup(pictures.draw_layers(result.layers))))
    return drawn
