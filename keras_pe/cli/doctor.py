"""`keras-pe doctor`: the installed versions, and the known faults of their combinations."""

import json
import platform
import re
from dataclasses import asdict, dataclass

import click

from keras_pe.cli.exit_codes import Command
from keras_pe.cli.options import json_option
from keras_pe.cli.tables import text_table, whole_console
from keras_pe.export.dependencies import installed_version, keras_backend
from keras_pe.tried_versions import TriedVersions, tried_versions

_LAYERS = ("keras", "numpy")
_BACKENDS = ("tensorflow", "jax", "torch", "numpy", "openvino")
_EXPORT = ("tensorflow", "tf2onnx", "onnx", "onnxruntime")


@dataclass(frozen=True)
class Package:
    """A package that this project depends on.

    Attributes:
        name: Its name on the index; "python" for Python itself.
        found: The installed version, None if it is missing.
        tried: The versions that were tried, two numbers each.
        is_needed: Whether the backend of this installation needs the package.
        remark: How to install a missing package, "not tried" for an untried version, else empty.
    """

    name: str
    found: str | None
    tried: tuple[str, ...]
    is_needed: bool
    remark: str


@click.command(cls=Command)
@json_option("the versions")
def doctor(as_json: bool) -> int:
    """Print the installed versions and their known faults. Exits with 1 if a needed package is missing.

    The command needs Keras and the selected backend. If the backend is TensorFlow, it also needs the packages of an
    export.
    """
    backend = keras_backend()
    needed = {*_LAYERS, backend, *(_EXPORT if backend == "tensorflow" else ())}
    packages = [_inspect_package(row, is_needed=row.name in needed) for row in tried_versions()]
    findings = _findings({package.name: package.found for package in packages}, backend)
    is_complete = backend in _BACKENDS and not any(each.is_needed and each.found is None for each in packages)
    if as_json:
        rows = [asdict(package) for package in packages]
        report = {"is_complete": is_complete, "backend": backend, "packages": rows, "findings": findings}
        click.echo(json.dumps(report, indent=2))
    else:
        cells = ((each.name, each.found or "-", ", ".join(each.tried), each.remark) for each in packages)
        console = whole_console()
        console.print(text_table("package", "found", "tried", "", rows=cells))
        console.print(f"Keras is set to the backend {backend!r}.", markup=False)
        for finding in findings:
            console.print(finding, markup=False)
    return 0 if is_complete else 1


def _inspect_package(row: TriedVersions, *, is_needed: bool) -> Package:
    version = _version(row.name)
    return Package(row.name, version, tuple(map(_minor, row.tried)), is_needed, _remark(row, version, is_needed))


def _version(package: str) -> str | None:
    return platform.python_version() if package == "python" else installed_version(package)


def _remark(row: TriedVersions, version: str | None, is_needed: bool) -> str:
    if version is not None:
        return "" if _minor(version) in map(_minor, row.tried) else "not tried"
    command = f"pip install 'keras-pe[{row.extra}]'" if row.extra else f"pip install {row.name}"
    return f"{command} (needed)" if is_needed else command


def _findings(found: dict[str, str | None], backend: str) -> list[str]:
    """Returns a sentence on each combination that is known to misbehave without this package's care."""
    findings = []
    if backend not in _BACKENDS:
        findings.append(f"Keras has no such backend: set KERAS_BACKEND to one of {', '.join(_BACKENDS)}.")
    if backend == "tensorflow" and not found["tensorflow"]:
        findings.append("TensorFlow is missing: set KERAS_BACKEND to another backend for the layers without an export.")
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


def _minor(version: str) -> str:
    """Returns the first two numbers of a version: what is between those of one pair is held to change nothing here."""
    return ".".join(map(str, _numbers(version)[:2]))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
