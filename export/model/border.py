"""The input/output adapter between an artifact and its model: a Keras model around the user's model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.artifacts.state import state_output
from keras_pe.export.model.border_steps import (
    apply_step,
    check_dtype,
    check_layouts,
    check_names,
    check_steps,
    other_layout,
    postprocess,
    relaid,
)
from keras_pe.export.model.signature.caller_arguments import by_name
from keras_pe.export.model.signature.declared_inputs import declared_inputs, output_names
from keras_pe.export.model.signature.fixed_sizes import FixedSizes
from keras_pe.export.model.signature.model_signature import find_signature
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import checked_sizes
from keras_pe.export.model.watch.nested_arguments import (
    FlatModel,
    Shape,
    free_shape,
    leaves,
    sanitize,
    unique,
    with_leaves,
)
from keras_pe.export.results import Array
from keras_pe.protocols import Model
from keras_pe.signal.layouts import is_integer

_LANGUAGE_MODELS = ("cache", "shared_cache", "encoder")
STATES = ("arguments", *_LANGUAGE_MODELS)


@dataclass(frozen=True)
class Border:
    """An input/output adapter between an artifact and its model. All names are those of the artifact.

    An input is transposed, preprocessed, and cast to the model's dtype. An output is selected, postprocessed,
    transposed, and then cast to the artifact's dtype.

    Attributes:
        batch: The fixed size of the first dimension of every input. By default the model's own size applies.
        inputs: New names of inputs, each with the model's own name. Other inputs keep their names.
        dtypes: Dtypes of inputs and outputs in the artifact, such as `{"image": "uint8"}`.
        layout: The layout of an input or output in the artifact, "channels_first" or "channels_last". The model has the
            other layout.
        preprocessing: A layer or a function of `keras.ops` for an input, applied before the model.
        outputs: The names of the artifact's outputs, or new names with the model's own names. All outputs by default.
        postprocessing: The step for an output: "argmax", "softmax" or "sigmoid" along the last axis; "top5" or another
            count; a layer; or a function of `keras.ops`. With a count, the indices have the output's name, and the
            values are called `<name>_values`.
        state: "arguments" makes every variable that a call of the model assigns an input `<layer>_<variable>` and an
            output `<layer>_<variable>_out`. "cache" makes the keys and values of a causal language model inputs and
            outputs, and excludes other fields; "shared_cache" does so with arrays that do not grow; "encoder" returns
            the keys and values of a text for the decoder's cross-attention. By default the artifact has no state.
        lengths: The length of a shared cache, then the numbers of tokens of a call, for an artifact of fixed sizes such
            as that of LiteRT. By default all lengths are free.
        seed: "argument" makes the state of each generator of random numbers an input `<layer>_seed` and an output
            `<layer>_seed_out`.

    Raises:
        TypeError: If a field is of another type.
        ValueError: If a field has a value that is not listed here.
    """

    batch: int | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    layout: Mapping[str, str] = field(default_factory=dict)
    preprocessing: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    outputs: Sequence[str] | Mapping[str, str] | None = None
    postprocessing: Mapping[str, str | Callable[[Any], Any]] = field(default_factory=dict)
    state: str | None = None
    lengths: Sequence[int] = ()
    seed: str | None = None

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError if a field is invalid."""
        for title in ("inputs", "dtypes", "layout", "preprocessing", "postprocessing"):
            object.__setattr__(self, title, by_name(title, getattr(self, title)))
        self._check_outputs()
        if self.batch is not None and (not is_integer(self.batch) or self.batch < 1):
            raise ArgValueError("batch", f"must be a whole number from 1. Received: batch={self.batch!r:.80}")
        if self.state not in (None, *STATES):
            known = " or ".join(map(repr, STATES))
            raise ArgValueError("state", f"must be {known}, or left out. Received: state={self.state!r:.80}")
        if self.seed not in (None, "argument"):
            raise ArgValueError("seed", f"must be 'argument', or left out. Received: seed={self.seed!r:.80}")
        others = (each.name for each in fields(self) if each.name not in ("state", "lengths"))
        if self.state in _LANGUAGE_MODELS and any(getattr(self, name) for name in others):
            raise ArgValueError(
                "state", f"must be the only field of an adapter if it is {self.state!r}. Received: {self!r:.200}"
            )
        if self.lengths and (self.state != "shared_cache" or not all(is_integer(size) for size in self.lengths)):
            raise ArgValueError(
                "lengths", f"must be whole numbers beside state='shared_cache'. Received: lengths={self.lengths!r:.80}"
            )
        check_layouts(self.layout)
        check_steps(self.preprocessing, self.postprocessing)

    def _check_outputs(self) -> None:
        """Raises TypeError unless the outputs are names."""
        outputs = [*self.outputs.values()] if isinstance(self.outputs, Mapping) else self.outputs
        is_sequence = isinstance(outputs, Sequence) and not isinstance(outputs, str)
        if outputs is not None and not (is_sequence and all(isinstance(name, str) for name in outputs)):
            raise ArgTypeError(
                "outputs", f"must be names, or new names and the model's own. Received: outputs={self.outputs!r:.80}"
            )

    def around(self, model: Model, input_signature: Any = None) -> Any:
        """Returns a model with the inputs and outputs of the artifact. It shares the weights of `model`.

        Args:
            model: A built `keras.Model`.
            input_signature: The signature of `model`, see `model_signature`.

        Raises:
            ValueError: If the model has no input or output of a name.
        """
        return self.traced_around(model, input_signature)[0]

    def traced_around(
        self,
        model: Model,
        input_signature: Any = None,
        fixed: FixedSizes | None = None,
        examples: Sequence[Mapping[str, Array]] = (),
    ) -> tuple[Any, Mapping[tuple[str, str], Any]]:
        """Returns the model of `around`, and the input tensor of each step, by field and name.

        Args:
            model, input_signature: See `around`.
            fixed: The sizes that the artifact fixes, with the shapes of its inputs.
            examples: Examples of the inputs, for a model that does not declare them.
        """
        import keras

        if self.state in _LANGUAGE_MODELS:
            from keras_pe.export.model.language_model_adapter import around_language_model

            return around_language_model(model, self.state, self.lengths), {}
        met: dict[tuple[str, str], Any] = {}
        flat = _flatten(model, input_signature, examples)
        check_names("border.inputs", self.inputs.values(), flat.names)
        renamed = {old: new for new, old in self.inputs.items()}
        names = [renamed.get(name, name) for name in flat.names]
        specs = dict(zip(names, zip(flat.shapes, flat.dtypes, strict=True), strict=True))
        check_names("preprocessing", self.preprocessing, names)
        for name, dtype in self.dtypes.items():
            check_dtype(name, dtype)
        stateless = None
        if self.state is not None or self.seed is not None:
            from keras_pe.export.model.stateless import with_state_as_arguments

            symbols = (keras.KerasTensor(free_shape(shape), dtype) for shape, dtype in specs.values())
            arguments = with_leaves(flat.structure, symbols)
            stateless = with_state_as_arguments(
                model, arguments, names, has_state=self.state is not None, has_seed=self.seed is not None
            )
        has_free_batch = stateless is not None and stateless.has_free_batch
        inputs = {name: self._input(name, *spec, fixed, has_free_batch) for name, spec in specs.items()}
        given = (self._to_model(name, inputs[name], *spec, met) for name, spec in specs.items())
        results, states = _call_model(model, stateless, with_leaves(flat.structure, given), self.batch)
        own = unique(map(sanitize, output_names(model, results)), taken=[*names, *states, *map(state_output, states)])
        outputs = self._outputs(dict(zip(own, (y for _, y in leaves(results)), strict=True)), met)
        check_names("layout", self.layout, [*names, *outputs])
        check_names("dtypes", self.dtypes, [*names, *outputs])
        outputs = {name: self._from_model(name, y) for name, y in outputs.items()}
        inputs |= {name: x for name, (x, _) in states.items()}
        outputs |= {state_output(name): y for name, (_, y) in states.items()}
        return keras.Model(inputs, outputs, name=model.name), met

    def outer_shape(self, name: str, shape: Sequence[int | str | None]) -> Shape:
        """Returns the shape of an input in the artifact.

        Args:
            name: The name of the input in the artifact.
            shape: The shape of the input in the model.
        """
        if not shape:
            return ()
        first, *rest = shape
        first = first if self.batch is None else self.batch
        if self.layout.get(name) == "channels_first":
            return (first, rest[-1], *rest[:-1])
        return (first, *rest[1:], rest[0]) if name in self.layout else (first, *rest)

    def _input(self, name: str, shape: Shape, dtype: str, fixed: FixedSizes | None, has_free_batch: bool) -> Any:
        import keras

        shape = self.outer_shape(name, (None, *shape[1:]) if has_free_batch else shape)
        shape = shape if fixed is None else fixed.shape_of(name, shape)
        return keras.Input(batch_shape=free_shape(shape), dtype=self.dtypes.get(name, dtype), name=name)

    def _to_model(self, name: str, x: Any, shape: Shape, dtype: str, met: dict[tuple[str, str], Any]) -> Any:
        from keras import ops

        if name in self.layout:
            x = relaid(x, other_layout(self.layout[name]))
        if name in self.preprocessing:
            met["preprocessing", name] = x
            x = apply_step("preprocessing", name, self.preprocessing[name], x, shape)
        return x if x.dtype == dtype else ops.cast(x, dtype)

    def _from_model(self, name: str, y: Any) -> Any:
        from keras import ops

        y = relaid(y, self.layout.get(name))
        return y if self.dtypes.get(name, y.dtype) == y.dtype else ops.cast(y, self.dtypes[name])

    def _outputs(self, own: Mapping[str, Any], met: dict[tuple[str, str], Any]) -> dict[str, Any]:
        """Returns the selected outputs after their postprocessing."""
        wanted = own.keys() if self.outputs is None else self.outputs
        chosen = dict(wanted) if isinstance(wanted, Mapping) else {name: name for name in wanted}
        check_names("outputs", chosen.values(), own)
        check_names("postprocessing", self.postprocessing, chosen)
        found: dict[str, Any] = {}
        for name, old in chosen.items():
            met["postprocessing", name] = own[old]
            found |= postprocess(name, own[old], self.postprocessing.get(name))
        return found


def decoder_lengths(sizes: Mapping[str, int | Sequence[int]] | None) -> tuple[int, ...]:
    """Returns the lengths of a decoder with fixed sizes, see `Border`: that of the cache, then those of the calls.

    Raises:
        ValueError: If the length of the cache is missing, a call is longer than the cache, or a name is unknown.
    """
    known = checked_sizes(sizes)
    cache, *others = known.pop("max_sequence_length", ()) or (0,)
    calls = known.pop("sequence_length", (1,))
    if known or others or max(calls) > cache:
        raise ArgValueError(
            "sizes",
            "must have one max_sequence_length, the length of the cache, and may have sequence_length, the numbers of "
            f"tokens of a call, for a shared cache. Received: sizes={sizes!r}.",
        )
    return (cache, *calls)


def own_signature(outer: Any) -> Signature | None:
    """Returns the signature of a model within an adapter if the adapter defines it: names of a cache have dots."""
    return getattr(outer, "artifact_signature", None)


def _flatten(model: Any, input_signature: Any, examples: Sequence[Mapping[str, Array]]) -> FlatModel:
    """Returns the model with a flat list of the inputs that it, a signature or an example declares."""
    own = declared_inputs(model)
    if isinstance(input_signature, Signature) or (input_signature is None and not own.is_known):
        signature = find_signature(model, input_signature, inputs=examples)
        inputs = {spec.name: (spec.shape, spec.dtype) for spec in signature.inputs}
        return FlatModel(model, signature.arguments, inputs)
    return own.flatten(input_signature)[0]


def _call_model(
    model: Any, stateless: Any, arguments: Any, batch: int | None
) -> tuple[Any, dict[str, tuple[Any, Any]]]:
    """Returns the results of a model, and the values of each state before and after the call, by the state's input.

    `stateless` is the model with its state as arguments, or None if the state is not an argument.
    """
    import keras

    if stateless is None:
        return model(*arguments), {}
    inputs = {
        state.input: keras.Input(
            batch_shape=[batch if isinstance(dim, str) else dim for dim in state.shape],
            dtype=state.dtype,
            name=state.input,
        )
        for state in stateless.exchanged
    }
    results, new = stateless([*inputs.values()], arguments)
    return results, dict(zip(inputs, zip(inputs.values(), new, strict=True), strict=True))
