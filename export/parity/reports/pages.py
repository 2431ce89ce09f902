"""HTML pages that load nothing: the style and the pictures are in them."""

import importlib.resources
from dataclasses import dataclass
from typing import Any

import jinja2
from markupsafe import Markup

from keras_pe import palette


@dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes:
        title: What it shows.
        svg: The picture, an element of SVG.
        description: What to see in it.
    """

    title: str
    svg: Markup
    description: str = ""


def render_page(package: str, **values: Any) -> str:
    """Returns a page.

    Args:
        package: The package that holds the page's template, which fills the frame that stands here.
        values: What the template and the frame write: `report`, `title` and `heading` among them.
    """
    places = {"page.html.j2": package, **dict.fromkeys(("base.html.j2", "macros.html.j2", "style.css"), __package__)}
    sources = {
        name: importlib.resources.files(place).joinpath(name).read_text("utf-8") for name, place in places.items()
    }
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(sources),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2").render(palette=palette, **values)
