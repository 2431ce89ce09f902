"""The processes of a pool run this package and what is installed, nothing of the current folder."""

from pathlib import Path

import pytest

from keras_pe.export.parity.dataset.executors.process_pool import ProcessPool


def test_a_module_in_the_current_folder_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickle.py").write_text("open('ran', 'w').close()")
    monkeypatch.chdir(tmp_path)
    with ProcessPool(1) as pool:
        assert pool.submit(abs, -3).result() == 3
    assert not (tmp_path / "ran").exists()
