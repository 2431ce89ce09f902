"""Requests and answers over the loopback address: what a script may fetch, and what others may not."""

import threading
import urllib.error
import urllib.request

import numpy as np
import pytest

from keras_pe.export.errors import RuntimeDiedError, RuntimeRefusedError
from keras_pe.export.runtimes.external.bridge import Bridge, pack, unpack

direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(address, body=None):
    with direct.open(address, body, timeout=30) as response:
        return response.read()


@pytest.fixture
def bridge(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside.mjs").write_text("inside")
    (tmp_path / "outside.mjs").write_text("outside")
    bridge = Bridge({"files": tmp_path / "folder"})
    yield bridge
    bridge.close()


def answering(bridge, answer):
    """Starts a script that answers one request."""

    def script():
        header, arrays = unpack(fetch(f"{bridge.url}next"))
        fetch(f"{bridge.url}answer", answer(header, arrays))

    threading.Thread(target=script, daemon=True).start()


def test_a_request_is_answered_by_the_script_that_fetched_it(bridge):
    answering(bridge, lambda header, arrays: pack({"heard": header["request"]}, {"y": 2 * arrays["x"]}))
    header, arrays = bridge.ask({"request": "double"}, {"x": np.arange(3)}, lambda: None)
    assert header == {"heard": "double"}
    assert arrays["y"].tolist() == [0, 2, 4]


def test_an_error_of_the_script_is_a_refusal_in_its_own_words(bridge):
    answering(bridge, lambda *_: pack({"error": "no such operator"}, {}))
    with pytest.raises(RuntimeRefusedError, match="no such operator"):
        bridge.ask({"request": "open"}, {}, lambda: None)


def test_a_script_that_is_gone_is_a_death_and_no_endless_wait(bridge):
    with pytest.raises(RuntimeDiedError, match="exit code 7"):
        bridge.ask({"request": "open"}, {}, lambda: "node ended with exit code 7")
    fetch(f"{bridge.url}died", b"WebGPU lost its device")
    with pytest.raises(RuntimeDiedError, match="lost its device"):
        bridge.ask({"request": "open"}, {}, lambda: None)


def test_a_script_fetches_what_is_shared_and_nothing_else(bridge, tmp_path):
    assert fetch(f"{bridge.url}files/inside.mjs") == b"inside"
    bridge.share("model", b"bytes")
    assert fetch(f"{bridge.url}model") == b"bytes"
    bridge.share("weights", tmp_path / "outside.mjs")
    assert fetch(f"{bridge.url}weights") == b"outside"
    for address in ("files/../outside.mjs", "files/missing", "other", ""):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(f"{bridge.url}{address}")


def test_without_the_secret_nothing_is_heard_or_told(bridge):
    server = bridge.url.rsplit("/", 2)[0]
    for address in (f"{server}/files/inside.mjs", f"{server}/guess/files/inside.mjs", f"{server}/guess/next"):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(address)
    fetch(f"{server}/guess/died", b"forged")  # taken by nobody
    answering(bridge, lambda *_: pack({"true": True}, {}))
    assert bridge.ask({"request": "import"}, {}, lambda: None)[0] == {"true": True}


@pytest.mark.slow
def test_a_bridge_that_is_closed_is_not_reached_any_more(bridge):
    other = Bridge({})
    other.share("model", b"bytes")
    assert fetch(f"{other.url}model") == b"bytes"
    other.close()
    with pytest.raises(urllib.error.URLError):
        fetch(f"{other.url}model")
