"""What an export was asked for, in the words of the exporters' arguments."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from keras_pe.export.comparison.inputs.cases import GivenInputs, in_types_of, read_cases
from keras_pe.export.errors import check_type, first_line
from keras_pe.export.model.border import Border
from keras_pe.export.model.border_record import border_to_json
from keras_pe.export.model.saved_file import load_model
from keras_pe.export.model.signature.fixed_sizes import FixedSizes
from keras_pe.export.model.signature.fixing import names_to_fix, sizes_to_fix
from keras_pe.export.model.signature.model_signature import find_signature, model_signature
from keras_pe.export.model.signature.signature import Signature
from keras_pe.protocols import Model


@dataclass(frozen=True)
class Request:
    """The arguments that all exporters share.

    Attributes:
        model: The Keras model, or the path of a file that Keras saved one to.
        filepath: Where the artifact will stand.
        input_signature: See `model_signature`.
        sizes: See `model_signature`.
        inputs: Examples of what the model takes, as mappings or as paths of `.npz` files, one or several.
        ranges: See `model_signature`.
        border: What the artifact takes and returns where that is not what the model does.
        border_record: The border as the artifact records it, once the model stands within it; and
        border_notes: a sentence on each step that the record does not hold.
        progress: Called with the name of each stage when it starts; True shows them.
        fixed: The sizes that the border needs fixed; None if it needs none.
        may_fix: Whether the export may fix a size that is free in the model, which `opened` decides: it may not where
            the caller asks for free sizes by an `input_signature`.
    """

    model: Model | str | os.PathLike[str]
    filepath: str | os.PathLike[str]
    input_signature: Any = None
    sizes: Mapping[str, Sequence[int]] | None = None
    inputs: GivenInputs | Sequence[GivenInputs] | None = None
    ranges: Mapping[str, tuple[float, float]] | None = None
    border: Border | None = None
    progress: Callable[[str], None] | bool | None = None
    border_record: str | None = None
    border_notes: tuple[str, ...] = ()
    fixed: FixedSizes | None = None
    may_fix: bool = False

    def tell(self, stage: str) -> None:
        """Tells the caller that a stage starts."""
        if callable(self.progress):
            self.progress(stage)

    def signature_of(self, model: Any, input_signature: Any) -> Signature:
        """Returns the signature of the model, made again in another precision perhaps, from what was asked for.

        Raises:
            ValueError: If an argument does not fit the model.
        """
        cases = () if self.inputs is None else read_cases(self.inputs)
        examples = [case.inputs for case in cases]
        signature = find_signature(
            model, input_signature, sizes=self.sizes, inputs=examples, ranges=self.ranges, fixed=self.fixed
        )
        for case, example in zip(cases, signature.values.examples, strict=False):  # by the names of artifacts
            in_types_of(replace(case, inputs=example), signature.inputs)
        return signature

    def opened(self) -> "Request":
        """Returns the request with the model, loaded where a file was named, and its border around it.

        Raises:
            FileNotFoundError: If the file is not there.
            ValueError: If it cannot be loaded, or the border does not fit it.
            TypeError: If the model or the border is of another type.
        """
        model = self.loaded()
        may_fix = self.input_signature is None
        if self.border is None:
            return replace(self, model=model, may_fix=may_fix)
        check_type("border", self.border, Border)
        fixed = None
        try:
            outer, given = self.border.traced_around(model, self.input_signature)
        except Exception as error:  # a layer may raise anything where a size is not known
            fixed = _fixed_around(self.border, model, self.sizes, first_line(error)) if may_fix else None
            if fixed is None:
                raise
            outer, given = self.border.traced_around(model, None, fixed)
        record, lost = border_to_json(self.border, outer, given)
        found = replace(self, model=outer, input_signature=None, border=None, fixed=fixed, may_fix=may_fix)
        return replace(found, border_record=record, border_notes=tuple(lost))

    def loaded(self) -> Any:
        """Returns the model, loaded where a file was named.

        Raises:
            FileNotFoundError: If the file is not there.
            ValueError: If it cannot be loaded.
            TypeError: If it is neither a model nor a path.
        """
        if not isinstance(self.model, str | os.PathLike):
            import keras

            if not isinstance(self.model, keras.Model):
                raise TypeError(
                    "`model` must be a keras.Model, or the path of a .keras or .h5 file of one. "
                    f"Received: {type(self.model).__name__}."
                )
            return self.model
        if not Path(self.model).exists():
            raise FileNotFoundError(f"No such file: {os.fspath(self.model)}.")
        self.tell("load")
        return load_model(self.model)


def _fixed_around(
    border: Border, model: Any, sizes: Mapping[str, Sequence[int]] | None, cause: str
) -> FixedSizes | None:
    """Returns the sizes that a model needs fixed within a border, by the artifact's inputs; None if none help.

    Args:
        border: The border.
        model: The Keras model, which cannot be called with symbols of free sizes.
        sizes: See `model_signature`.
        cause: Why it cannot.
    """
    renamed = {old: new for new, old in border.inputs.items()}
    try:
        signature = model_signature(model, sizes=sizes)
    except ValueError:  # of sizes that are not known either
        return None
    known = sizes_to_fix(model, signature)

    def sized(names: Collection[str]) -> FixedSizes:
        cut = signature.fixed({name: known[name].size for name in names})
        outer = ((renamed.get(spec.name, spec.name), spec.shape) for spec in cut.inputs)
        shapes = tuple((name, border.outer_shape(name, shape)) for name, shape in outer)
        sizes = tuple(known[name] for name in signature.dimensions if name in names)
        return FixedSizes(sizes, shapes, f"Keras cannot trace it: {cause}.")

    def is_traced(names: Collection[str]) -> bool:
        if not known.keys() >= {*names}:  # the caller gives several sizes of one
            return False
        try:
            border.traced_around(model, None, sized(names))
        except Exception:  # whatever the layers raise
            return False
        return True

    names = names_to_fix(signature, is_traced)
    return sized(names) if names else None
