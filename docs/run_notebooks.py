"""Runs the notebooks and stores their outputs, for readers without a kernel.

Usage: python docs/run_notebooks.py
"""

import base64
import hashlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from ipykernel.kernelspec import make_ipkernel_cmd
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_FOLDER = re.compile(rf"{re.escape(tempfile.gettempdir())}/tmp\w+/?")
SOURCE = "source_sha256"  # key of the metadata: the hash of the source that made the outputs


class ThisInterpreter(AsyncKernelManager):
    """Starts the Python that runs this, whatever kernels the machine knows."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """The kernel."""
        return KernelSpec(argv=make_ipkernel_cmd(), display_name="Python 3", language="python")


def read(path: Path) -> nbformat.NotebookNode:
    """Returns the stored notebook."""
    return nbformat.read(path, as_version=nbformat.NO_CONVERT)


def source_hash(notebook: nbformat.NotebookNode) -> str:
    """Returns the SHA-256 of what stands in the cells."""
    sources = (f"{cell.cell_type}\n{cell.source}\n" for cell in notebook.cells)
    return hashlib.sha256("".join(sources).encode()).hexdigest()


def execute(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Returns a notebook that has run in a folder, with its outputs."""
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, kernel_manager_class=ThisInterpreter, resources=resources, timeout=300).execute()


def strip(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Returns an executed notebook without traces of a machine: no times, no logs, no versions of the kernel."""
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            kept = [output for output in cell.outputs if output.get("name") != "stderr"]
            cell.outputs = [nbformat.from_dict(_plain(output)) for output in kept]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        SOURCE: source_hash(notebook),
    }
    return notebook


def _plain(given: Any, kind: str = "") -> Any:
    """Returns an output with its pictures small and the names of temporary folders left out."""
    if isinstance(given, dict):
        return {name: _plain(each, name) for name, each in given.items()}
    if kind == "image/png":
        return _small(given)
    return _FOLDER.sub("", given) if isinstance(given, str) else given


def _small(picture: str) -> str:
    """Returns a picture in 256 colors, which are more than a plot has."""
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as opened:
        opened.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


if __name__ == "__main__":
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": ""}
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(strip(execute(read(path), Path(folder))), path)
