"""What the source says of itself: its modules, what each imports, and the rooms that they stand in."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent

# The rooms in the order of their stages: a room imports from those above it and from itself, never from one below.
# A module belongs to the longest name that it starts with.
ROOMS: dict[str, tuple[str, ...]] = {
    "signal": ("signal",),
    "the package": ("lazy", "palette", "protocols", "registration", "tried_versions", "version"),
    "rotations": ("rotations",),
    "layers": ("layers",),
    "around the layers": ("tensor2tensor", "conventions", "plots", "shifts", "masks"),
    "keras_pe": ("",),
    "artifacts": ("export", "export.artifacts", "export.errors", "export.messages", "export.dependencies"),
    "model": ("export.model",),
    "graph": ("export.graph",),
    "publishing": ("export.publishing",),
    "processes": ("export.processes",),
    "runtimes": ("export.runtimes",),
    "results": ("export.results", "export.parity.reports"),
    "comparison": ("export.comparison",),
    "smoke test": ("export.smoke_test", "export.handover"),
    "exporters": ("export.onnx", "export.saved_model", "export.litert", "export.litert_conversion"),
    "diagnosis": ("export.parity.diagnosis",),
    "check": ("export.parity",),
    "bundles": ("export.parity.bundle",),
    "statistics": ("export.parity.statistics",),
    "data": ("export.parity.data", "export.parity.plugins"),
    "work": ("export.parity.work",),
    "data sets": ("export.parity.dataset",),
    "connectors": ("export.connectors",),
    "demo": ("demo",),
    "command line": ("cli", "__main__"),
}  # fmt: skip
_ROOM_OF = {f"keras_pe.{name}".rstrip("."): room for room, names in ROOMS.items() for name in names}


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


def imports(path: Path) -> set[str]:
    """Returns the modules that a file imports, also inside functions; those for type checkers aside.

    Of this project's packages it is the module that is imported from; of others the full name, a function's too.
    """
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    known = modules()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known or node.module not in known else node.module for name in full}
    return found


def own_imports(path: Path) -> set[str]:
    """Returns the modules of this project among `imports`."""
    return imports(path) & set(modules())


def room(module: str) -> str:
    """Returns the room of a module."""
    if module in _ROOM_OF:
        return _ROOM_OF[module]
    parts = module.split(".")
    # `keras_pe` itself begins every name, and is no room of what is in it.
    prefixes = (".".join(parts[:count]) for count in range(len(parts), 1, -1))
    return next(_ROOM_OF[prefix] for prefix in prefixes if prefix in _ROOM_OF)
