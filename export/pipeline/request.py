"""The arguments of an export, and the model and the signature that follow from them."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.comparison.inputs.cases import GivenInputs, cast_case, read_cases
from keras_pe.export.errors import check_type, first_line
from keras_pe.export.model.border import Border, own_signature
from keras_pe.export.model.border_record import border_to_json
from keras_pe.export.model.saved_file import load_model
from keras_pe.export.model.signature.choose_fixed_sizes import names_to_fix, sizes_to_fix, with_fixed_sizes
from keras_pe.export.model.signature.fixed_sizes import FixedSize, FixedSizes, Origin
from keras_pe.export.model.signature.model_signature import find_signature, model_signature
from keras_pe.export.model.signature.signature import Signature
from keras_pe.export.model.sizes.dimensions import checked_sizes
from keras_pe.export.results import Array
from keras_pe.protocols import Model


@dataclass(frozen=True)
class Request:
    """The arguments that all exporters share.

    Attributes:
        model: The Keras model, or the path of a file that Keras saved one to.
        filepath: The path of the artifact.
        input_signature: See `model_signature`.
        sizes: See `model_signature`.
        inputs: One or several examples of the model's inputs, as mappings or as paths of `.npz` files.
        ranges: See `model_signature`.
        border: The input/output adapter between the artifact and the model.
        border_record: The adapter as the artifact records it, after `open_model` has wrapped the model in the adapter.
        border_notes: A sentence for each step of the adapter that the record omits.
        state: "arguments" or "cache" if the state of the model becomes inputs and outputs, see `Border`.
        seed: "argument" if the states of generators of random numbers become inputs and outputs, see `Border`.
        progress: Called with the name of each stage when it starts; True shows a bar.
        fixed: The sizes that the adapter needs fixed; None if it needs no fixed size.
        may_fix: Whether the export may fix a size that is free in the model. `open_model` decides it: an
            `input_signature` of the caller requests free sizes, so these stay free.
        fixes_all: Whether the export fixes every size: the batch at 1 unless the caller sets it, and all others at the
            caller's sizes.
    """

    model: Model | str | os.PathLike[str]
    filepath: str | os.PathLike[str]
    input_signature: Any = None
    sizes: Mapping[str, Sequence[int]] | None = None
    inputs: GivenInputs | Sequence[GivenInputs] | None = None
    ranges: Mapping[str, tuple[float, float]] | None = None
    border: Border | None = None
    state: str | None = None
    seed: str | None = None
    progress: Callable[[str], None] | bool | None = None
    border_record: str | None = None
    border_notes: tuple[str, ...] = ()
    fixed: FixedSizes | None = None
    may_fix: bool = False
    fixes_all: bool = False

    def tell(self, stage: str) -> None:
        """Reports to the caller that a stage starts."""
        if callable(self.progress):
            self.progress(stage)

    def signature_of(self, model: Any, input_signature: Any) -> Signature:
        """Returns the signature that a model has with the arguments of this request.

        A dimension with one size in `sizes` is fixed, unless it is free in an `input_signature` of the caller.

        Args:
            model: The Keras model of this request, or its rebuild in another precision.
            input_signature: See `model_signature`.

        Raises:
            ValueError: If an argument does not fit the model.
        """
        cases = () if self.inputs is None else read_cases(self.inputs)
        examples = [case.inputs for case in cases]
        signature = find_signature(
            model, input_signature, sizes=self.sizes, inputs=examples, ranges=self.ranges, fixed=self.fixed
        )
        for case, example in zip(cases, signature.values.examples, strict=False):  # the signature uses artifact names
            cast_case(replace(case, inputs=example), signature.inputs)
        if self.fixes_all:
            fixed = _all_sizes(model, signature)
        else:
            own = checked_sizes(self.sizes) if self.may_fix else {}
            alone = {name for name, sizes in own.items() if len(sizes) == 1}
            fixed = [each for name, each in sizes_to_fix(model, signature).items() if name in alone] if alone else []
        return with_fixed_sizes(model, signature, fixed) if fixed else signature

    def open_model(self) -> "Request":
        """Returns the request with the model, loaded if the caller passed a path, and wrapped in its adapter.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If Keras cannot load the file, or the adapter does not fit the model.
            TypeError: If the model or the adapter is of another type.
        """
        model = self.load_model_file()
        may_fix = self.input_signature is None
        if self.border is not None:
            check_type("border", self.border, Border)
        own = {name: value for name in ("state", "seed") if (value := getattr(self, name)) is not None}
        border = replace(self.border or Border(), **own) if own else self.border
        if border is None:
            return replace(self, model=model, may_fix=may_fix)
        fixed = None
        try:
            outer, given = border.traced_around(model, self.input_signature, examples=self._examples())
        except Exception as error:  # a layer may raise any error if a size is unknown
            fixed = _fixed_around(border, model, self.sizes, first_line(error)) if may_fix else None
            if fixed is None:
                raise
            outer, given = border.traced_around(model, None, fixed)
        record, lost = border_to_json(border, outer, given)
        signature = own_signature(outer)
        found = replace(self, model=outer, input_signature=signature, border=None, state=None, seed=None)
        if (border.state or border.seed) and self.inputs is not None:
            from keras_pe.export.model.stateless import with_first_states  # imports Keras

            found = replace(found, inputs=[with_first_states(outer, each) for each in self._examples()])
        found = replace(found, fixed=fixed, may_fix=may_fix and signature is None)
        return replace(found, border_record=record, border_notes=tuple(lost))

    def _examples(self) -> list[Mapping[str, Array]]:
        """Returns the examples of the inputs."""
        return [] if self.inputs is None else [case.inputs for case in read_cases(self.inputs)]

    def load_model_file(self) -> Any:
        """Returns the model, loaded if the caller passed a path.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If Keras cannot load the file.
            TypeError: If `model` is neither a model nor a path.
        """
        if not isinstance(self.model, str | os.PathLike):
            import keras

            if not isinstance(self.model, keras.Model):
                raise ArgTypeError(
                    "model",
                    "must be a keras.Model, or the path of a .keras or .h5 file of one. "
                    f"Received: {type(self.model).__name__}.",
                )
            return self.model
        if not Path(self.model).exists():
            raise FileNotFoundError(f"No such file: {os.fspath(self.model)}.")
        self.tell("load")
        return load_model(self.model)


def _all_sizes(model: Any, signature: Signature) -> list[FixedSize]:
    """Returns the size of every dynamic dimension.

    Raises:
        ValueError: If a size other than the batch is unknown.
    """
    known = sizes_to_fix(model, signature)
    unknown = [name for name in signature.dimensions if name not in known or known[name].origin is Origin.FIRST]
    if unknown:
        example = ", ".join(f"{signature.sizes[name]} for {name!r}" for name in unknown)
        received = ", ".join(map(repr, unknown))
        raise ArgValueError(
            "sizes",
            f"must have one size for each dimension with a `target`. Received: no size, or several, for "
            f"{received}. For example, the model takes {example}.",
        )
    return [known[name] for name in signature.dimensions]


def _fixed_around(
    border: Border, model: Any, sizes: Mapping[str, Sequence[int]] | None, cause: str
) -> FixedSizes | None:
    """Returns the sizes that a model needs fixed within an adapter; None if fixed sizes do not help.

    Args:
        border: The adapter.
        model: The Keras model, which cannot be called with symbolic tensors of free sizes.
        sizes: See `model_signature`.
        cause: The reason why the model cannot be called with them.

    Returns:
        The sizes, and the shapes of the artifact's inputs.
    """
    renamed = {old: new for new, old in border.inputs.items()}
    try:
        signature = model_signature(model, sizes=sizes)
    except ValueError:  # the sizes are unknown without the adapter too
        return None
    known = sizes_to_fix(model, signature)

    def fix_sizes(names: Collection[str]) -> FixedSizes:
        cut = signature.fix_sizes({name: known[name].size for name in names})
        outer = ((renamed.get(spec.name, spec.name), spec.shape) for spec in cut.inputs)
        shapes = tuple((name, border.outer_shape(name, shape)) for name, shape in outer)
        sizes = tuple(known[name] for name in signature.dimensions if name in names)
        return FixedSizes(sizes, shapes, f"Keras cannot trace it: {cause}.")

    def is_traced(names: Collection[str]) -> bool:
        if not known.keys() >= {*names}:  # a dimension with several sizes from the caller must stay free
            return False
        try:
            border.traced_around(model, None, fix_sizes(names))
        except Exception:  # a layer may raise any error
            return False
        return True

    names = names_to_fix(signature, is_traced)
    return fix_sizes(names) if names else None
