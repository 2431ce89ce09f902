"""`keras-pe doctor`: the versions found, and what is known about their combination."""

import importlib.metadata
import platform
import re

import click

# What every test of this release ran on; another version may work, and has not been seen to.
_TRIED = {
    "keras": "3.15",
    "numpy": "2.4",
    "tensorflow": "2.21",
    "tf2onnx": "1.17",
    "onnx": "1.23",
    "onnxruntime": "1.31",
    "keras-hub": "0.32",
    "ai-edge-litert": "2.3",
    "openvino": "2026.4",
}
_NEEDED = {"keras": "keras-pe", "numpy": "keras-pe"} | dict.fromkeys(
    ("tensorflow", "tf2onnx", "onnx", "onnxruntime"), "keras-pe[export]"
)
_OPTIONAL = {"ai-edge-litert": "keras-pe[litert]", "openvino": "keras-pe[openvino]"}


@click.command()
def doctor() -> None:
    """Print the versions found and what is known about them. Exits with 1 if something that is needed is missing."""
    from rich.console import Console
    from rich.table import Table

    found = {package: _version(package) for package in _TRIED}
    table = Table("package", "found", "tried", "")
    table.add_row("python", platform.python_version(), "3.11", "")
    for package, tried in _TRIED.items():
        table.add_row(package, found[package] or "-", tried, _remark(package, found[package]))
    console = Console()
    console.print(table)
    for finding in _findings(found):
        console.print(finding, markup=False)
    if any(found[package] is None for package in _NEEDED):
        raise SystemExit(1)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _remark(package: str, version: str | None) -> str:
    if version is None:
        extra = _NEEDED.get(package) or _OPTIONAL.get(package)
        return f"pip install '{extra}'".replace("[", "\\[") if extra else ""
    return "" if _numbers(version)[:2] == _numbers(_TRIED[package])[:2] else "not tried"


def _findings(found: dict[str, str | None]) -> list[str]:
    """Returns a sentence on each combination that is known to misbehave without this package's care."""
    findings = []
    onnx, runtime = (_numbers(found[name] or "0") for name in ("onnx", "onnxruntime"))
    if onnx >= (1, 23) and (0,) < runtime < (1, 32):
        findings.append(
            "onnx 1.23 writes IR version 14 by default, which this onnxruntime refuses. "
            "export_onnx() writes the version that its opset needs."
        )
    if _numbers(found["numpy"] or "0") >= (2,) and found["tf2onnx"]:
        findings.append("tf2onnx needs a repair to run with NumPy 2. export_onnx() applies the one that Keras has.")
    if found["tf2onnx"] and _numbers(found["tf2onnx"])[:2] != (1, 17):
        findings.append("The handlers are registered with the internals of tf2onnx 1.17; this is another version.")
    return findings


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
