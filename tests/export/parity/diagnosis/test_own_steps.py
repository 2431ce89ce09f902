"""A fault in the `step` of a user's own decoder is named by its line, like one in the `call` of a layer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from keras_pe.export import check_parity, export_onnx
from keras_pe.export.model import language_model_adapter
from tests.export.decoders.small_decoders import VOCABULARY, OwnDecoder, own_decoder


@keras.saving.register_keras_serializable("tests")
class Windowed(OwnDecoder):
    """A decoder whose tokens attend to the last six positions."""

    def relate(self, scores: Any, positions: Any, mask: Any) -> Any:
        """Returns the scores within the window."""
        from keras import ops

        counted = ops.cumsum(ops.cast(mask[:, -1], "int32"), axis=1) - 1
        size = {"wider": 7, "endless": 10_000}.get(self.fault, 6)  # wider
        is_near = positions[:, :, None] - counted[:, None, :] < size  # endless
        return ops.where(is_near[:, None], scores, -1e9)


@keras.saving.register_keras_serializable("tests")
class Sloped(OwnDecoder):
    """A decoder with ALiBi of its own."""

    def relate(self, scores: Any, positions: Any, mask: Any) -> Any:
        """Returns the scores with their slopes."""
        from keras import ops

        last = mask[:, -1]  # by column
        if self.fault == "by column":
            last = ops.ones_like(last)
        counted = ops.cumsum(ops.cast(last, "int32"), axis=1) - 1
        distances = counted[:, None, :] - positions[:, :, None]
        slopes = np.array([0.5, 0.125], "float32")[None, :, None, None]
        return scores + ops.cast(distances, "float32")[:, None] * slopes


CASES: list[dict[str, Any]] = []
for _batch, _count, _past in ((2, 3, 5), (3, 1, 12), (2, 12, 4)):
    _rng = np.random.default_rng(_past)
    _mask = _rng.integers(0, 2, (_batch, _past + _count))
    _rows = {name: _rng.normal(size=(_batch, 2, _past, 4)).astype("float32") for name in ("key", "value")}
    CASES.append(
        {
            "input_ids": _rng.integers(0, VOCABULARY, (_batch, _count)),
            "attention_mask": _mask,
            **{f"past_key_values.0.{name}": rows for name, rows in _rows.items()},
        }
    )


@pytest.mark.slow_rows(1)
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "fault"), [(Windowed, "wider"), (Windowed, "endless"), (Sloped, "by column")])
def test_the_line_of_a_step_is_named(
    kind: type[OwnDecoder], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound: Callable[..., Any] = lambda decoder: (0.0, 1.0)  # noqa: E731  # an export would refuse the faulty step
    monkeypatch.setattr(language_model_adapter, "_difference", sound)
    artifact = export_onnx(own_decoder(fault, kind), tmp_path / "own.onnx", state="cache")
    (result,) = check_parity(own_decoder(kind=kind), artifact.path, runtimes="onnxruntime[all]", inputs=CASES).results
    (finding,) = result.findings
    lines = Path(__file__).read_text().splitlines()
    marked = next(number for number, line in enumerate(lines, 1) if "  # " in line and fault in line.split("  # ")[1])
    assert (finding.file, finding.line) == (__file__, marked)
