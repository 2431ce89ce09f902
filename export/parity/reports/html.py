"""Renders a document as one HTML page without external files, or as a fragment for a notebook."""

import html
import importlib.resources

from keras_pe import palette
from keras_pe.display import printable
from keras_pe.export.parity.reports.document import Document, Outcome, TextTable

_TEMPLATES = ("page.html.j2", "style.css")


def render(document: Document) -> str:
    """Returns the page: its style and its pictures are in it."""
    import jinja2
    from markupsafe import Markup

    from keras_pe.export.parity.reports.drawing import draw

    folder = importlib.resources.files(__package__)
    environment = jinja2.Environment(
        loader=jinja2.DictLoader({name: folder.joinpath(name).read_text("utf-8") for name in _TEMPLATES}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("page.html.j2")
    return page.render(document=document, palette=palette, draw=lambda picture: Markup(draw(picture)))


def render_piece(document: Document) -> str:
    """Returns the verdict, what failed and why, and the overview, without pictures: what a notebook shows."""
    lines = [f"<p><strong>{html.escape(document.title)}: {Outcome.of(document.passed).value}</strong><br>"]
    lines += [html.escape(" ".join(document.summary)), "</p>"]
    for part in document.parts:
        if not part.passed:
            statements = "".join(
                f"<li><strong>{html.escape(each.label)}</strong>: {html.escape(each.text)}</li>"
                for each in part.statements
            )
            lines.append(f"<p>{html.escape(part.title)}</p><ul>{statements}</ul>")
    return "\n".join([*lines, _table(document.overview)])


def _table(table: TextTable) -> str:
    rows = (table.header, *table.short)
    cells = ("".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
