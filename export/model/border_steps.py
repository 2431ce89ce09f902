"""The steps at the inputs and outputs of an artifact: casts, transposes, preprocessing and postprocessing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keras_pe.argument_errors import ArgTypeError, ArgValueError
from keras_pe.export.errors import first_line
from keras_pe.export.model.watch.nested_arguments import Shape, shapes_fit

_LAYOUTS = ("channels_first", "channels_last")
_DECISIONS = ("argmax", "softmax", "sigmoid")

Step = Callable[[Any], Any]


def check_names(title: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raises ValueError if a name is unknown."""
    if unknown := set(given) - set(known):
        raise ArgValueError(title, f"must be of {', '.join(known)}. Received: {', '.join(sorted(unknown))}.")


def check_layouts(layouts: Mapping[str, str]) -> None:
    """Raises ValueError if a layout is unknown."""
    for name, layout in layouts.items():
        if layout not in _LAYOUTS:
            raise ArgValueError("layout", f"must be one of {', '.join(_LAYOUTS)}. Received: {name!r}: {layout!r}.")


def check_steps(preprocessing: Mapping[str, Step], postprocessing: Mapping[str, str | Step]) -> None:
    """Raises TypeError if a step is not callable, and ValueError if the name of a step is unknown."""
    named = {name: step for name, step in postprocessing.items() if isinstance(step, str)}
    unnamed = {name: step for name, step in postprocessing.items() if name not in named}
    for title, steps in (("preprocessing", preprocessing), ("postprocessing", unnamed)):
        for name, step in steps.items():
            if not callable(step):
                raise ArgTypeError(title, f"must be layers or functions. Received: {name!r}: {step!r:.80}")
    for name, known in named.items():
        if known not in _DECISIONS and _top_count(known) is None:
            rule = f"{', '.join(_DECISIONS)}, top and a count such as top5, or a layer"
            raise ArgValueError("postprocessing", f"must be one of {rule}. Received: {name!r}: {known!r}.")


def check_dtype(name: str, dtype: str) -> None:
    """Raises ValueError if a dtype is unknown to Keras."""
    import keras

    try:
        keras.backend.standardize_dtype(dtype)
    except (TypeError, ValueError) as error:
        raise ArgValueError(
            "dtypes", f"must be types of Keras, such as uint8. Received: {name!r}: {dtype!r}."
        ) from error


def other_layout(layout: str) -> str:
    """Returns the layout that is not `layout`."""
    return next(each for each in _LAYOUTS if each != layout)


def relaid(x: Any, layout: str | None) -> Any:
    """Transposes a tensor of the other layout to `layout`; returns the tensor itself if `layout` is None."""
    from keras import ops

    if layout is None:
        return x
    inner = range(1, len(x.shape))
    order = [inner[-1], *inner[:-1]] if layout == "channels_first" else [*inner[1:], inner[0]]
    return ops.transpose(x, [0, *order])


def apply_step(title: str, name: str, step: Step, x: Any, shape: Shape | None = None) -> Any:
    """Returns a tensor after a step.

    Args:
        title: The field of the adapter: "preprocessing" or "postprocessing".
        name: The input or output of the artifact.
        step: The layer or function.
        x: The tensor.
        shape: The shape that the model takes; None if the result may have any shape.

    Raises:
        ValueError: If the step refuses the tensor, or does not return one tensor of this shape.
    """
    import keras

    takes = getattr(step, "inputs", None) or [x]
    cause: Exception | None = None
    # Keras refuses another rank only when it runs the model.
    if len(takes) > 1 or not shapes_fit(x.shape, takes[0].shape):
        fault = f"which takes {', '.join(f'{each.dtype} of shape {each.shape}' for each in takes)}"
    else:
        try:
            y = step(x)
            if isinstance(y, keras.KerasTensor) and (shape is None or shapes_fit(y.shape, shape)):
                return y
            fault = f"which returns {y!r:.80}"
        except Exception as error:  # a user's layer may raise any error
            fault, cause = f"which raises: {first_line(error)}", error
    returns = "" if shape is None else f", and return one tensor of shape {tuple(shape)}"
    raise ArgValueError(
        title,
        f"must take {name!r}, {x.dtype} of shape {x.shape}{returns}. Received: {step!r:.80}, {fault}. "
        "Otherwise export one keras.Model that contains this step.",
    ) from cause


def postprocess(name: str, y: Any, step: str | Step | None) -> dict[str, Any]:
    """Returns the outputs that the postprocessing of one output yields, by name."""
    from keras import ops

    if step is None:
        return {name: y}
    if not isinstance(step, str):
        return {name: apply_step("postprocessing", name, step, y)}
    if step == "argmax":
        return {name: ops.top_k(y, 1)[1][..., 0]}  # LiteRT cannot convert Keras' argmax
    count = _top_count(step)
    if count is None:
        return {name: getattr(ops, step)(y)}
    if y.shape[-1] is not None and count > y.shape[-1]:
        raise ArgValueError(
            "postprocessing", f"must choose among the values of a row. Received: {name!r}: {step!r}, of {y.shape[-1]}."
        )
    values, indices = ops.top_k(y, count)
    return {name: indices, f"{name}_values": values}


def _top_count(step: str) -> int | None:
    """Returns the count of a step such as "top5"; None for any other step."""
    number = step.removeprefix("top")
    return int(number) if step.startswith("top") and number.isdecimal() and int(number) > 0 else None
