"""A report as one HTML page that loads nothing."""

from markupsafe import Markup

from keras_pe.export.parity.reports import cells, pictures, text
from keras_pe.export.parity.reports.groups import group_results
from keras_pe.export.parity.reports.matrix import matrix
from keras_pe.export.parity.reports.pages import Picture, render_page
from keras_pe.export.results import ParityReport, RuntimeResult


def render(report: ParityReport) -> str:
    """Returns the page. Failing runtimes are open; where all pass, the first one is."""
    groups = group_results(report)
    counted = f"{report.compared:,} values compared in {report.seconds:.1f} s."
    return render_page(
        __package__,
        title=f"Parity of {report.model}",
        heading=f"Measured against {report.reference}. {counted}",
        report=report,
        groups=groups,
        statements=[list(text.statements(report, group)) for group in groups],
        remarks=text.remarks(report),
        header=text.HEADER,
        rows=[text.row(group) for group in groups],
        pictures=[_pictures(group.first) for group in groups],
        cells=cells,
        matrix=matrix(groups),
    )


def _pictures(result: RuntimeResult) -> list[Picture]:
    """Returns the pictures of the comparison that was profiled, and of the layers."""
    drawn: list[Picture] = []
    profile = result.profile
    if profile is not None:
        (case,) = (case for case in result.cases if case.name == profile.case)
        (comparison,) = (each for each in case.comparisons if each.output == profile.output)
        where = f"output {profile.output!r} of the case {profile.case!r}"
        words = f"Largest error {cells.number(comparison.max_abs_diff)}, allowed {cells.number(comparison.tolerance)}."
        svg = pictures.draw_positions(profile, comparison)
        drawn.append(Picture(f"Error by position, {where}", Markup(svg), words))
        counts = f"{profile.equal:,} of {comparison.count:,} values do not differ at all"
        if profile.nonfinite:
            counts += f"; {profile.nonfinite:,} are NaN or infinite on one side only"
        histogram = pictures.draw_histogram(profile, comparison)
        drawn.append(Picture(f"Error histogram, {where}", Markup(histogram or ""), f"{counts}."))
    if result.layers:
        first = result.first_layer_that_differs
        words = f"The first layer whose output differs is {first!r}." if first else "No layer's output differs."
        words += " At the left end: no difference. At the right end: no finite one."
        drawn.append(Picture("Layer by layer", Markup(pictures.draw_layers(result.layers)), words))
    return drawn
