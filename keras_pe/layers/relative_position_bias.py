"""The relative bias of T5: a trained number for each bucket of distances."""

from typing import Any

import keras
from keras import ops

from keras_pe.layers.call_arguments import Shape
from keras_pe.layers.relative_base import RelativeLayer
from keras_pe.rotations.lookup import Table, take
from keras_pe.signal.distances import BucketRule, relative_buckets


@keras.saving.register_keras_serializable(package="keras_pe")
class RelativePositionBias(RelativeLayer):
    """Returns a trained bias of each head for the bucket that the distance of query and key falls into (T5).

    The layer looks up buckets in a table of integers. In T5's own formula, the last digit of a runtime's logarithm
    decides at the distances 16, 32, 64 and 128.

    Args:
        num_heads: Number of heads.
        num_buckets: Number of buckets.
        max_distance: Distance from which all larger distances share one bucket.
        bidirectional: Whether keys after the query have buckets of their own, as in an encoder.
        rule: "t5", "deberta" or "clipped", as in `relative_buckets`.
        initializer: Initial values of the table, `(buckets, num_heads)`.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        As in `AlibiBias`.

    Returns:
        As in `AlibiBias`.

    Source:
        Raffel et al., "T5", arXiv 1910.10683, section 2.1; He et al., "DeBERTa", arXiv 2006.03654; Shaw et al.,
        arXiv 1803.02155.

    >>> queries = keras.ops.zeros((1, 5, 4, 16))
    >>> tuple(RelativePositionBias(4)(queries).shape)  # heads, queries, keys
    (1, 4, 5, 5)
    """

    def __init__(
        self,
        num_heads: int,
        *,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        rule: BucketRule = "t5",
        initializer: Any = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads=num_heads, **kwargs)
        self.num_buckets, self.max_distance, self.bidirectional = num_buckets, max_distance, bidirectional
        self.rule = rule
        self.initializer = keras.initializers.get(initializer)
        self._buckets = Table(relative_buckets(rule, num_buckets, max_distance, bidirectional=bidirectional))

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {
            **super().get_config(),
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "bidirectional": self.bidirectional,
            "rule": self.rule,
            "initializer": keras.initializers.serialize(self.initializer),
        }

    def build(self, queries_shape: Shape) -> None:
        rows = {"t5": self.num_buckets, "deberta": 2 * self.num_buckets, "clipped": 2 * self.max_distance + 1}
        self._table = self.add_weight(
            name="embeddings", shape=(rows[self.rule], self.num_heads), initializer=self.initializer
        )

    def _bias(self, distances: Any, queries: Any) -> Any:
        rows = ops.clip(distances, -self.max_distance, self.max_distance) + self.max_distance
        # Few rows by many distances: the table is laid out by distance first, so that one lookup is left.
        table = take(ops.convert_to_tensor(self._table), self._buckets.tensor())
        # Not by moveaxis(-1): PyTorch's exporter to ONNX writes the -1 into the file, which nothing loads.
        return ops.transpose(take(table, rows), (0, 3, 1, 2))
