"""Runs the relative buckets of Hugging Face and keeps what they return: writes relative-buckets.npz beside this file.

Usage (in an environment of its own, with transformers==5.23.0 and torch==2.13.0):
    python tests/golden/relative_buckets.py

The file has values for distances from -max_distance - 2 to max_distance + 2, the key's position minus the query's:
`T5Attention._relative_position_bucket(distance, bidirectional, num_buckets, max_distance)`, and
`make_log_bucket_position(-distance, num_buckets, max_distance)` of DeBERTa v2, clamped as its attention does.
"""

from pathlib import Path
from typing import Any

import numpy as np

RETURNED = Path(__file__).parent / "relative-buckets.npz"
T5 = [(True, 32, 128), (False, 32, 128), (True, 64, 256), (False, 16, 64), (True, 8, 20), (True, 320, 800)]
DEBERTA = [(256, 512), (32, 128), (8, 64)]


def main() -> None:
    """Writes the file."""
    import torch
    from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
    from transformers.models.t5.modeling_t5 import T5Attention

    arrays: dict[str, Any] = {}
    for bidirectional, buckets, far in T5:
        distances = torch.arange(-far - 2, far + 3)
        found = T5Attention._relative_position_bucket(distances, bidirectional, buckets, far)
        arrays[f"t5/{bidirectional}/{buckets}/{far}"] = found.numpy()
    for buckets, far in DEBERTA:
        distances = torch.arange(-far - 2, far + 3)
        found = make_log_bucket_position(-distances, buckets, far).long() + buckets
        arrays[f"deberta/True/{buckets}/{far}"] = found.clamp(0, 2 * buckets - 1).numpy()
    np.savez(RETURNED, **arrays)


if __name__ == "__main__":
    main()
