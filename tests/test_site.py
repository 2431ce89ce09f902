"""The site is built without a warning, its links lead somewhere, and its search finds the page that answers."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from keras_pe.export.runtimes.external.hosts import find_chromium, find_package
from tests.export.parity.presentation.samples import ALL
from tests.export.runtimes.external.present import leave_out
from tests.source_tree import ROOT

QUESTIONS = {
    "add positions to my model": "how-to/add-positions",
    "which encoding to choose": "how-to/choose-an-encoding",
    "long contexts": "how-to/long-contexts",
    "RoPE scaling YaRN": "how-to/long-contexts",
    "operators of a file": "how-to/what-a-file-is-made-of",
    "port rotary weights": "how-to/port-rotary-weights",
    "images or video": "how-to/images-and-video",
    "class token": "how-to/class-tokens",
    "decoder with a cache and a start": "how-to/decoder-with-a-cache",
    "export language model genai": "how-to/language-model",
    "padded and packed sequences": "how-to/padded-and-packed",
    "trained positions longer than the table": "how-to/longer-than-the-table",
    "half precision bfloat16": "how-to/half-precision",
    "replace my own positional encoding layer in a saved model": "how-to/replace-my-own-layer",
    "port from Hugging Face": "how-to/porting",
    "port from fairseq": "how-to/porting",
    "port tensor2tensor": "how-to/porting",
    "port keras-hub": "how-to/porting",
    "which convention made this table": "how-to/which-convention",
    "export with free and fixed sizes": "how-to/sizes-and-inputs",
    "NCHW": "how-to/sizes-and-inputs",
    "bytes in, preprocessing inside": "how-to/sizes-and-inputs",
    "subclassed model": "how-to/subclassed-model",
    "custom layer": "how-to/custom-layer",
    "I have a checkpoint": "how-to/checkpoints",
    "weights file h5": "how-to/checkpoints",
    "file of Keras 2": "how-to/checkpoints",
    "CSV": "how-to/my-data",
    "strings": "how-to/strings",
    "several inputs and outputs": "how-to/several-inputs",
    "model on JAX": "how-to/jax-or-pytorch",
    "PyTorch model": "how-to/jax-or-pytorch",
    "read a refusal": "how-to/read-a-refusal",
    "LiteRT on a phone": "how-to/litert",
    "browser": "how-to/browser",
    "Node": "how-to/node",
    "server": "how-to/server",
    "another version of ONNX Runtime": "how-to/other-onnxruntime",
    "test in pytest": "how-to/test-and-ci",
    "GitHub workflow JUnit": "how-to/test-and-ci",
    "my data": "how-to/my-data",
    "data on Dask": "how-to/my-data",
    "data on Ray or Spark": "how-to/my-data",
    "failing check line by line": "how-to/failing-check",
    "report a fault upstream with the replay bundle": "how-to/report-upstream",
    "runtime of my own": "how-to/own-runtime",
    "quantized files": "how-to/quantized",
    "quantize a LiteRT file": "how-to/quantized-litert",
    "run a decoder on a phone or in a browser": "how-to/decoder-on-devices",
    "channels first": "how-to/sizes-and-inputs",
    "export refused": "how-to/read-a-refusal",
    "export a stateful LSTM": "how-to/streaming",
    "streaming audio in chunks": "how-to/streaming",
    "operator has no ONNX form": "how-to/read-a-refusal",
    "replace my positional encoding layer": "how-to/replace-my-own-layer",
    "what to do with unknown": "how-to/unknown",
    # The words of others, which the keywords of a page bring to it.
    "vit patches": "how-to/images-and-video",
    "cls token": "how-to/class-tokens",
    "kv cache": "how-to/decoder-with-a-cache",
    "autoregressive decoding": "how-to/decoder-with-a-cache",
    "extend learned position embeddings": "how-to/longer-than-the-table",
    "fp16": "how-to/half-precision",
    "mixed precision": "how-to/half-precision",
    "huggingface": "how-to/porting",
    "dynamic batch size": "how-to/sizes-and-inputs",
    "multiple inputs": "how-to/several-inputs",
    "multiple outputs": "how-to/several-inputs",
    "torch": "how-to/jax-or-pytorch",
    "unsupported operator": "how-to/read-a-refusal",
    "iphone": "how-to/litert",
    "javascript": "how-to/browser",
    "nodejs": "how-to/node",
    "triton": "how-to/server",
    "continuous integration": "how-to/test-and-ci",
    "check fails": "how-to/failing-check",
    "report a bug": "how-to/report-upstream",
    "custom runtime": "how-to/own-runtime",
    "unknown cause": "how-to/unknown",
    "object detection boxes and scores": "how-to/detectors",
    # Whole sentences: words that a page lacks count for nothing, and do not hide it.
    "how to add rope to multi head attention": "how-to/rotary-attention",
    "how can I add rotary embeddings to MultiHeadAttention": "how-to/rotary-attention",
    "which opset should I use for onnxruntime": "how-to/operator-sets",
    "what are the exit codes of the command": "reference/command-line",
    "exit code": "reference/command-line",
    "quantize accuracy drop": "how-to/quantized",
    "my int8 model lost accuracy after quantization": "how-to/quantized",
    "how do i run my model on an iphone": "how-to/litert",
    "run keras model in chrome with javascript": "how-to/browser",
    "how to export a yolo detector": "how-to/detectors",
    "can the tokenizer be inside the file": "how-to/strings",
    "can I use it commercially, which license": "citing",
    "how do I cite this package": "citing",
    "the batch size of my file is fixed to 1": "how-to/sizes-and-inputs",
    "resize position embeddings of a vision transformer": "how-to/another-image-size",
    "encode unix timestamps": "how-to/timestamps",
    "onnx gives different results than keras": "how-to/failing-check",
    "outputs differ after conversion": "how-to/failing-check",
    "model.predict differs from onnxruntime": "how-to/failing-check",
    "why is my onnx model returning nan": "how-to/failing-check",
    "convert keras to onnx": "start",
    "how do I install it": "start",
    "first example of checking a model": "start",
    "sinusoidal vs learned": "how-to/choose-an-encoding",
    "attention mask padding tokens positions": "how-to/padded-and-packed",
    "raspberry pi": "how-to/litert",
    "dropout at inference": "causes",
    "windows or macos support": "why",
    "model file too large 2GB": "how-to/sizes-and-inputs",
    "shrink model size": "how-to/quantized",
    "gpu memory out of memory check": "how-to/my-data",
    "how long does the check take": "how-to/test-and-ci",
    "pre-commit hook": "how-to/test-and-ci",
    "compare two onnx files": "how-to/test-and-ci",
    "beam search generate text": "how-to/language-model",
    "relative position bias swin": "how-to/another-image-size",
    "load config.json from huggingface": "how-to/port-rotary-weights",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the site, but for running its notebooks, which tests of their own do."""
    pytest.importorskip("myst_nb")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-D", "nb_execution_mode=off", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


class Links(HTMLParser):
    """Collects where a page leads, and the places in it that can be led to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places.add(given.get("id") or "")
        self.links += [given[name] or "" for name in ("href", "src") if name in given]


def test_every_how_to_has_a_question_that_leads_to_it() -> None:
    pages = {f"how-to/{path.stem}" for path in (ROOT / "docs" / "how-to").glob("*.md")}
    assert pages - {"how-to/index"} <= set(QUESTIONS.values())


@pytest.mark.slow
def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: Links(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 40
    broken = []
    for page, found in pages.items():
        for link in found.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            inside = target not in pages or not parts.fragment or unquote(parts.fragment) in pages[target].places
            if not target.exists() or not inside:
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == []


@pytest.mark.slow
def test_every_question_is_two_clicks_from_the_start_page(site: Path) -> None:
    listed = Links(site / "how-to" / "index.html").links
    assert "how-to/index.html" in Links(site / "index.html").links
    for page in set(QUESTIONS.values()):
        assert not page.startswith("how-to/") or f"{page.removeprefix('how-to/')}.html" in listed


@pytest.mark.slow
def test_the_search_finds_the_page_of_each_question_among_the_first_three(site: Path) -> None:
    if shutil.which("node") is None:
        leave_out("the site's search runs in Node: apt-get install nodejs")
    command = ["node", str(ROOT / "tests" / "site_search.mjs"), str(site), *QUESTIONS]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    wrong = {
        question: pages[:4]
        for (question, page), pages in zip(QUESTIONS.items(), found, strict=True)
        if page not in pages[:3]
    }
    assert wrong == {}


def look(pages: Iterable[Path], pictures: str = "") -> list[str]:
    """Returns what a browser finds wrong with pages; the test is skipped without one."""
    chromium, axe, driver = find_chromium(), find_package("axe-core"), find_package("puppeteer-core")
    if chromium is None or axe is None or driver is None or shutil.which("node") is None:
        leave_out("to look at pages: apt-get install chromium nodejs, npm install axe-core puppeteer-core")
    command = ["node", str(ROOT / "tests" / "look.mjs"), chromium, str(axe.parent), pictures, *map(str, pages)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout
    return list(json.loads(found))


@pytest.mark.slow
def test_a_browser_finds_nothing_wrong_with_the_pages_that_differ_in_form(site: Path) -> None:
    names = ("index", "search", "gallery", "how-to/failing-check", "reference/conventions", "reference/check")
    assert look(site / f"{name}.html" for name in names) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_a_browser_finds_nothing_wrong_with_any_page(site: Path) -> None:
    assert look(path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts) == []


@pytest.mark.slow
def test_a_browser_finds_nothing_wrong_with_a_report(tmp_path: Path) -> None:
    for name, report in ALL.items():
        report.save(tmp_path / f"{name}.html")
    assert look(sorted(tmp_path.glob("*.html"))) == []


@pytest.mark.slow
def test_a_page_of_the_reference_shows_signatures_and_sections(site: Path) -> None:
    page = (site / "reference" / "layers.html").read_text("utf-8")
    assert 'id="keras_pe.SinusoidalPositionEncoding"' in page
    assert re.search("Input shape|Output shape", page)
