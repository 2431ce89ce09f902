"""The rotary position encoding (RoPE) of queries and keys, exact at any position."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, get_args

import keras
from keras import ops

from keras_pe.argument_errors import ArgValueError
from keras_pe.layers.axes import reach
from keras_pe.layers.base import PositionLayer, check_count, plain
from keras_pe.layers.call_arguments import Shape, check_inputs_dtype, check_integers, per_axis
from keras_pe.layers.head_axes import HeadAxes
from keras_pe.layers.query_scaling import QueryScaling
from keras_pe.layers.rotary_sections import Sections
from keras_pe.layers.rotary_signal import Growth, Rates, RotarySignal
from keras_pe.rotations.pairs import interleave_columns, turn_blocks
from keras_pe.rotations.static_values import align_dtypes, outside_of_traces
from keras_pe.signal.layouts import RotaryLayout
from keras_pe.signal.rope_parameters import rope_arguments


@keras.saving.register_keras_serializable(package="keras_pe")
class RotaryPositionEncoding(PositionLayer):
    """Rotates pairs of channels of queries and keys by angles that grow with their positions (RoPE).

    Pair `i` of `n` is rotated by `position * base ** (-i / n)` radians. The product of a query and a key then depends
    on the difference of their positions. Sines and cosines are within 2.5e-7 of the exact ones at every position from
    -2**24 to 2**24 - 1, also at fractions. Under a narrower dtype policy the layer computes in float32, and casts the
    result once, last.

    Args:
        base: Base of the rates, `rope_theta` in Hugging Face's configurations.
        timescales: Explicit timescales instead of `base` and `scaling`: one for each rotated pair, in positions per
            radian, in the order of the pairs. They may differ by axis. An infinite timescale leaves its pair unchanged.
        layout: Pairs of channels. "halves": one in the first half, one in the second (Hugging Face, GPT-NeoX,
            keras-hub). "interleaved": neighbors (Meta, GPT-J, Cohere). "interleaved_to_halves": neighbors, with results
            in the two halves (DeepSeek V3).
        rotary_dim: Number of rotated channels, counted from the first; the other channels are unchanged. None rotates
            all channels. 0 is for layers with a `query_scaling` alone.
        direction: 1 rotates the first channel of a pair towards the second; -1 is the inverse rotation.
        scaling: The scaling of the rates for longer texts, with the names of Hugging Face's configurations:
            `{"rope_type": "yarn", "factor": 4.0, ...}`, or None. See `keras_pe.rope_timescales`. "longrope" without a
            `length` uses the rates of long texts for an example with a position beyond the original length on any axis.
            "xpos" needs `max_length`, and queries and keys in one call, because it scales them in opposite ways.
        query_scaling: `{"scale": s, "length": n}` multiplies queries by `1 + s * log(1 + floor(position / n))`
            (Ministral 3). "first_position": 1 counts from 1 (Llama 4). "stepwise": False multiplies them by
            `1 + s * log(max((position + first_position) / n, 1))`. None: no factor.
        sections: The number of pairs that each position of a token or patch rotates; by default equally many.
        axis_of_pair: The axis of positions that rotates each pair, for an order that `sections` cannot express.
        shared_rates: Whether one sequence of rates runs through all sections (Qwen2-VL), or each has its own (Flux).
        interleave_sections: Whether the pairs of the sections alternate, as in Qwen3-VL's `mrope_interleaved`, with the
            remaining pairs in the first section.
        split_sections: Whether each section is a separate block of channels with this layout (Gemma 4's vision).
        sequence_axis: Axis of the inputs that has the positions, or several axes.
        feature_axis: Axis of the channels of a head.
        max_length: The largest length, an integer or one per axis, which gives a faster graph. None for any length.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Call arguments:
        queries: `(batch, length, heads, channels)`, or another shape with these axes. The first axis is the batch.
        keys: None, or keys at the same positions, with any number of heads.
        positions: Positions instead of `0, ..., length - 1`: integers or floats, `(length,)` or `(batch, length)`; for
            several axes a list of one per axis.
        start_index: Position of the first element, for a decoder with a cache: integers of shape `()` or `(batch,)`.

    Returns:
        The rotated queries, or a tuple of the rotated queries and the rotated keys. The shapes are unchanged.

    Raises:
        ValueError: If an argument is out of its range, shapes do not agree, or a position that is known during the call
            is out of reach.
        TypeError: If an argument is of the wrong type.

    Source:
        Su et al., "RoFormer", arXiv 2104.09864; transformers 5.23.0, modeling_rope_utils.py; for sections Wang et al.,
        "Qwen2-VL", arXiv 2409.12191; for "xpos" Sun et al., arXiv 2212.10554, and flash-attn 2.8.3, layers/rotary.py;
        for `query_scaling` transformers 5.24.0, modeling_ministral3.py and modeling_llama4.py.

    >>> import numpy as np
    >>> layer = RotaryPositionEncoding()
    >>> keras.ops.convert_to_numpy(layer(np.array([[[1.0, 0.0], [1.0, 0.0]]], "float32"))).round(3)
    array([[[1.   , 0.   ],
            [0.54 , 0.841]]], dtype=float32)
    """

    _call_arguments = ("queries", "keys", "positions", "start_index")

    def __init__(
        self,
        base: float = 1.0e4,
        *,
        timescales: Sequence[float] | None = None,
        layout: RotaryLayout = "halves",
        rotary_dim: int | None = None,
        direction: int = 1,
        scaling: Mapping[str, Any] | None = None,
        query_scaling: Mapping[str, Any] | None = None,
        sections: Sequence[int] | None = None,
        axis_of_pair: Sequence[int] | None = None,
        shared_rates: bool = False,
        interleave_sections: bool = False,
        split_sections: bool = False,
        sequence_axis: int | Sequence[int] = 1,
        feature_axis: int = -1,
        max_length: int | Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        if layout not in get_args(RotaryLayout):
            choices = ", ".join(map(repr, get_args(RotaryLayout)))
            raise ArgValueError("layout", f"must be one of {choices}. Received: {layout=}.")
        if direction not in (1, -1):
            raise ArgValueError("direction", f"must be 1 or -1. Received: {direction=}.")
        super().__init__(max_length=max_length, **kwargs)
        rates = Rates.checked(base, scaling, timescales)
        self.base = rates.base
        self.layout = layout
        self._query_scaling = None if query_scaling is None else QueryScaling.checked(query_scaling)
        least = 2 if query_scaling is None else 0
        self.rotary_dim = rotary_dim if rotary_dim is None else check_count("rotary_dim", rotary_dim, least)
        self.direction = int(direction)
        self.shared_rates = bool(shared_rates)
        self._head = HeadAxes.checked(sequence_axis, feature_axis)
        self.sequence_axis, self.feature_axis = self._head
        self._sized_axes = (self.feature_axis,)
        arguments = Sections(sections, axis_of_pair, bool(interleave_sections), bool(split_sections))
        self._sections = arguments.check(self.sequence_axis)
        self.sections, self.axis_of_pair, self.interleave_sections, self.split_sections = self._sections
        # A namespace hides the containers: TensorFlow wraps them otherwise, and refuses to save keys that are not
        # strings.
        self._held = SimpleNamespace(rates=rates, signals={})

    @classmethod
    def from_rope_parameters(
        cls,
        config: Mapping[str, Any],
        *,
        head_dim: int | None = None,
        layer_type: str | None = None,
        length: int | None = None,
        **kwargs: Any,
    ) -> "RotaryPositionEncoding":
        """Returns the layer of a model's configuration as Hugging Face writes it.

        Args:
            config: The contents of `config.json`, one part such as `config["vision_config"]`, or `rope_parameters`
                or `rope_scaling` alone. A name in it or its `model_type` determines the layout. Otherwise the layout is
                "halves", and a model with another needs `layout`.
            head_dim: Channels of a head, where pairs or a part are counted and the configuration does not say.
            layer_type: The type of layers, if there are parameters for several types. Llama 4's "full_attention" has no
                rotation, but a factor on queries.
            length: Longest length that the model is to see, for "dynamic", whose rates depend on it, and "longrope".
            **kwargs: Further arguments of the layer; they win over the configuration's.

        Raises:
            ValueError: If a name looks rotary and is unknown, nothing is rotary, or the model does not turn pairs.
            TypeError: If a value is of the wrong type.
        """
        arguments = rope_arguments(config, head_dim=head_dim, layer_type=layer_type, length=length)
        return cls(**{**arguments, **kwargs})

    @property
    def scaling(self) -> dict[str, Any] | None:
        """The scaling that the layer was made with; for `timescales` the "explicit" one."""
        scaling: dict[str, Any] | None = self._held.rates.scaling
        return None if scaling is None else dict(scaling)

    @property
    def query_scaling(self) -> dict[str, Any] | None:
        """The factor on queries that the layer was made with."""
        return None if self._query_scaling is None else self._query_scaling.arguments()

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor as plain values."""
        return {
            **super().get_config(),
            "base": self.base,
            "layout": self.layout,
            "rotary_dim": self.rotary_dim,
            "direction": self.direction,
            "scaling": self.scaling,
            "query_scaling": self.query_scaling,
            "sections": plain(self.sections),
            "axis_of_pair": plain(self.axis_of_pair),
            "shared_rates": self.shared_rates,
            "interleave_sections": self.interleave_sections,
            "split_sections": self.split_sections,
            "sequence_axis": plain(self.sequence_axis),
            "feature_axis": self.feature_axis,
        }

    def build(self, queries_shape: Shape) -> None:
        self._head.check(queries_shape)
        self._axes = self._axes or self._axes_of(queries_shape, None)
        channels = int(queries_shape[self.feature_axis])  # type: ignore[arg-type]
        self._rotated = channels if self.rotary_dim is None else self.rotary_dim
        if self._rotated % 2 or self._rotated > channels:
            raise ArgValueError(
                "rotary_dim",
                f"must be an even number of at most {channels}, the channels of a head. "
                f"Received: rotary_dim={self.rotary_dim}.",
            )
        self.input_spec = keras.layers.InputSpec(axes={self.feature_axis: channels})
        self._signal(self._axes)

    def call(self, queries: Any, keys: Any = None, positions: Any = None, start_index: Any = None) -> Any:
        self._check_heads(queries, keys)
        shape = ops.shape(queries)
        given = self._positions_of_axes(queries, shape, positions, start_index)
        scaling = self._query_scaling
        factors = None if scaling is None else scaling.factors(given[0], self._head, shape, self._signal_dtype)
        signal, growth = self._signal(len(given))
        of_queries = of_keys = None if signal is None else signal.at(given, self._head, shape)
        if growth is not None and of_keys is not None:
            of_queries, of_keys = growth.factors(of_keys, given[0], self._head, shape)
        turned = self._rotate(queries, of_queries, signal, factors)
        return turned if keys is None else (turned, self._rotate(keys, of_keys, signal))

    def compute_output_spec(
        self, queries: Any, keys: Any = None, positions: Any = None, start_index: Any = None
    ) -> Any:
        """Returns shapes and dtypes of the outputs; what is known of the arguments is checked as in a call."""
        self._check_heads(queries, keys)
        self._check_call(queries, positions, start_index)
        rotated = tuple(keras.KerasTensor(x.shape, self.compute_dtype) for x in (queries, keys) if x is not None)
        return rotated[0] if keys is None else rotated

    def compute_output_shape(self, queries_shape: Shape, keys_shape: Shape | None = None) -> Any:
        return queries_shape if keys_shape is None else (queries_shape, keys_shape)

    def _check_heads(self, queries: Any, keys: Any) -> None:
        self._head.check(queries.shape)
        check_inputs_dtype(queries.dtype, "queries")
        if keys is not None:
            self._head.check_keys(queries, keys)
            check_inputs_dtype(keys.dtype, "keys")

    def _check_call(self, inputs: Any, positions: Any, start_index: Any) -> list[tuple[Any, Any]]:
        given = super()._check_call(inputs, positions, start_index)
        for values, _ in given:
            if not self._held.rates.takes_fractions:
                check_integers(values, self.name)
        return given

    def _axes_of(self, inputs_shape: Any, positions: Any) -> int:
        if self.sections:
            return len(self.sections)
        listed = len(positions) if isinstance(positions, (list, tuple)) else 1
        return len(self.sequence_axis) if len(self.sequence_axis) > 1 else listed

    def _length_of_axes(self, inputs_shape: Any, axes: int) -> list[Any]:
        lengths = [inputs_shape[axis] for axis in self.sequence_axis]
        return lengths if len(lengths) > 1 else lengths * axes

    def _reach_of_axes(self, axes: int) -> list[tuple[int, int]]:
        return [reach(0, bound) for bound in per_axis(self.max_length, axes, "max_length")]

    def _signal(self, axes: int) -> tuple[RotarySignal | None, Growth | None]:
        """Returns what makes sines and cosines, made when a call first has so many axes, and the growth of queries."""
        key = axes, self._signal_dtype
        if key not in self._held.signals:
            self._held.signals[key] = self._make_signal(*key)
        made: tuple[RotarySignal | None, Growth | None] = self._held.signals[key]
        return made

    @outside_of_traces
    def _make_signal(self, axes: int, dtype: str) -> tuple[RotarySignal | None, Growth | None]:
        if not self._rotated:
            return None, None
        if axes > 1 and self._query_scaling is not None:
            raise ArgValueError("query_scaling", f"must be None with several axes of positions. Received: {axes} axes.")
        pairs, blocks = self._sections.divide(self._rotated, axes)
        rates: Rates = self._held.rates
        signal = RotarySignal(
            rates,
            pairs,
            shared_rates=self.shared_rates,
            direction=self.direction,
            blocks=blocks,
            bounds=per_axis(self.max_length, axes, "max_length"),
            layout=self.layout,
            dtype=dtype,
        )
        logarithms = rates.of(self._rotated, **rates.alternatives()[0]).growth
        if logarithms is None:
            return signal, None
        if axes > 1:
            raise ValueError(f"'xpos' must have one axis of positions. Received: {axes} axes.")
        growth = interleave_columns(logarithms, logarithms, self.layout)
        return signal, Growth(growth, self.max_length, self.compute_dtype, dtype)

    def _rotate(self, inputs: Any, turns: Any, signal: RotarySignal | None, factors: Any = None) -> Any:
        """Returns queries, or keys, multiplied by factors and turned by sines and cosines; None of these is neutral."""
        x = self._head.channels_last(ops.cast(inputs, self._signal_dtype))
        x = x if factors is None else ops.multiply(*align_dtypes(x, factors))
        if signal is not None:
            sin, cos = turns
            x = turn_blocks(x, sin, cos, self.layout, signal.blocks)
        return ops.cast(self._head.channels_back(x), self.compute_dtype)
