"""The modules of the package."""

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def modules() -> dict[str, Path]:
    """Returns every module of the two folders, by import name."""
    found = {}
    for folder, name in ((ROOT / "keras_pe", "keras_pe"), (ROOT / "export", "keras_pe.export")):
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            if folder.name == "keras_pe" and parts[0] == "export":
                continue
            found[".".join([name, *parts]).removesuffix(".__init__")] = path
    return found
