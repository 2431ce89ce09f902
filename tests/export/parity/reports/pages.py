"""Promises of every HTML page, whatever it reports."""

import re


def assert_colors_come_from_the_page(text: str) -> None:
    """Asserts that pictures use only colors of the page, which defines each twice."""
    (style,) = re.findall("<style>.*?</style>", text, flags=re.DOTALL)
    pictures = re.findall("<svg.*?</svg>", text, flags=re.DOTALL)
    for svg in pictures:
        assert re.findall(r"(?:fill|stroke): ?#\w+", svg) == []
        used = set(re.findall(r"var\(([^)]*)\)", svg))
        assert "--ink" in used
        assert all(style.count(f"{name}: #") == 2 for name in used)  # once for light and once for dark
    assert "prefers-color-scheme: dark" in style
