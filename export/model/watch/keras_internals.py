"""Private names of Keras, used where no public name exists. Tried on Keras 3.15.1."""

import contextlib
import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from keras_pe.export.model.watch.temporary_patches import replaced_attributes, replaced_functions, replaced_on_each


def loads_python_code() -> bool:
    """Whether Keras loads the code of lambdas from files: its safe mode is off."""
    from keras.src.saving.serialization_lib import in_safe_mode

    return in_safe_mode() is False


def python_code_allowed() -> AbstractContextManager[Any]:
    """Lets Keras load the code of lambdas from files, within a `with` statement."""
    from keras.src.saving.serialization_lib import SafeModeScope

    scope: AbstractContextManager[Any] = SafeModeScope(safe_mode=False)
    return scope


def all_layers(model: Any) -> list[Any]:
    """Returns the model and every layer in it, those within layers included."""
    return list(model._flatten_layers())


def parts_of(layer: Any) -> list[Any]:
    """Returns the layers directly in a layer or model; of a Functional or Sequential one its operations as well."""
    inner = (
        list(layer._flatten_layers(include_self=False, recursive=False)) if hasattr(layer, "_flatten_layers") else []
    )
    operations = list(getattr(functional_of(layer), "operations", None) or [])
    return list({id(part): part for part in [*operations, *inner] if part is not functional_of(layer)}.values())


def built_shapes(model: Any) -> Any:
    """Returns the recorded shapes of a model's first argument; None if Keras has not recorded any."""
    noted = getattr(model, "_build_shapes_dict", None) or {}
    return next(iter(noted.values()), None)


def functional_of(model: Any) -> Any:
    """Returns the Functional model within a Sequential model, with the hidden InputLayer; else the model itself."""
    return getattr(model, "_functional", None) or model


def symbolic_arguments(layer: Any) -> list[Any]:
    """Returns the arguments of each symbolic call of a layer or operation, positional ones and those by name."""
    nodes = getattr(layer, "_inbound_nodes", ())
    return [(node.arguments.args, node.arguments.kwargs) for node in nodes]


def held_resources(layers: Iterable[Any]) -> list[Any]:
    """Returns the resources of TensorFlow in layers: tables, variables and modules. Variables of Keras are excluded."""
    import keras
    import tensorflow as tf

    kinds = (tf.saved_model.experimental.TrackableResource, tf.Variable, tf.Module)
    holders = [getattr(layer, "_lookup_layer", layer) for layer in layers]  # TextVectorization has another layer do it
    found = [
        value
        for holder in holders
        for attribute in list(vars(holder).values())
        for value in _leaves(attribute)
        if isinstance(value, kinds) and not isinstance(value, keras.Layer)
    ]
    return list({id(value): value for value in found}.values())


def _leaves(value: Any) -> Iterator[Any]:
    """Yields the leaves of lists, tuples and dictionaries. Keras' own function sorts keys, which fails for layers."""
    if isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def compute_output_spec(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the symbolic results of a function for symbolic tensors. The called layers do not record the call."""
    from keras.src import backend

    return backend.compute_output_spec(function, *arguments)


def with_free_batch(variables: Iterable[Any], layers: Iterable[Any]) -> AbstractContextManager[None]:
    """Lets variables take values of any batch, and recurrent layers any batch beside their states, in this thread.

    Args:
        variables: The variables, whose first axis is the batch.
        layers: The layers that assign values to them.
    """
    shapes = [(each, {"_shape": (None, *each.shape[1:])}) for each in variables]
    fixed = [each for each in layers if getattr(each, "_expected_batch_size", None) is not None]
    return replaced_on_each([*shapes, *((each, {"_expected_batch_size": None}) for each in fixed)])


def replaced_causal_masks(layers: Iterable[Any], mask: Callable[..., Any]) -> AbstractContextManager[None]:
    """Gives Keras' own attention layers another function that makes their causal masks, in this thread.

    Args:
        layers: Any.
        mask: The function. Its arguments are the usual function and that function's own arguments.
    """
    import keras

    kinds = (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention)
    return replaced_functions((each, "_compute_causal_mask", mask) for each in layers if isinstance(each, kinds))


def resizing_to_tensors() -> AbstractContextManager[None]:
    """Lets `keras.ops.image.resize` take a size of tensors, in this thread.

    Keras 3.15 tests whether the size is positive, which fails in a graph. Thus Keras cannot trace an interpolating
    UpSampling2D with dynamic sizes.
    """
    import keras
    from keras.src.ops import image

    def resize(usual: Callable[..., Any], images: Any, size: Any, *args: Any, **kwargs: Any) -> Any:
        is_of_tensors = isinstance(size, list | tuple) and any(keras.ops.is_tensor(length) for length in size)
        return (image._resize if is_of_tensors else usual)(images, size, *args, **kwargs)

    return replaced_functions((module, "resize", resize) for module in (image, keras.ops.image))


_LONG = 64  # steps; for fewer, a graph takes longer to trace than the steps take


def loops_as_graphs() -> AbstractContextManager[None]:
    """Lets TensorFlow run each long loop of Keras' recurrent layers as one graph, in this thread.

    An eager step takes milliseconds. A loop that cannot be traced runs step by step.
    """
    import keras
    from keras.src import backend

    def run(usual: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        import tensorflow as tf

        if tf.executing_eagerly() and (options.get("input_length") or 0) >= _LONG:
            with contextlib.suppress(Exception):  # a cell may raise any error in a graph
                return tf.function(lambda: usual(*arguments, **options), autograph=False)()
        return usual(*arguments, **options)

    return replaced_functions([(backend, "rnn", run)] if keras.backend.backend() == "tensorflow" else [])


_NOT_IN_SCOPES = re.compile(r"[^0-9A-Za-z_.-]")


def scope_name(name: str) -> str:
    """Returns a layer's name as a valid TensorFlow scope: other characters are replaced by their code points.

    Keras accepts any text without a slash as the name of a layer. Different names stay different.
    """
    plain = _NOT_IN_SCOPES.sub(lambda found: f".{ord(found[0]):x}.", name) or ".empty."
    return plain if plain[0].isalnum() or plain[0] == "." else f".{plain}"


def open_scopes() -> AbstractContextManager[None]:
    """Lets layers of any name be traced by TensorFlow, in this thread. Keras' own paths keep the names."""
    import keras
    from keras.src import backend

    def open_scope(usual: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(name, str) or "/" in name:
            return usual(name, *args, **kwargs)  # Keras refuses it
        scope = usual(scope_name(name), *args, **kwargs)
        scope.name = name
        return scope

    return replaced_functions((module, "name_scope", open_scope) for module in (backend, keras))


def named_for_scopes(variables: Iterable[Any]) -> AbstractContextManager[None]:
    """Lets TensorFlow write variables, which opens a scope of the name of each: those of layers of any name."""
    values = [getattr(variable, "value", variable) for variable in variables]
    handles = [(each, getattr(each, "_handle_name", None)) for each in values]
    names = [(each, handle.rpartition(":")) for each, handle in handles if isinstance(handle, str)]
    plain = [(each, "/".join(map(scope_name, name.split("/"))), number) for each, (name, _, number) in names]
    return replaced_on_each((each, {"_handle_name": f"{name}:{number}"}) for each, name, number in plain)


def replaced_operations(
    core: Mapping[str, Callable[..., Any]] | None = None,
    nn: Mapping[str, Callable[..., Any]] | None = None,
    numpy: Mapping[str, Callable[..., Any]] | None = None,
    normalizations: Mapping[str, Callable[..., Any]] | None = None,
    recurrence: Callable[..., Any] | None = None,
) -> AbstractContextManager[None]:
    """Gives `keras.ops` and recurrent layers other implementations on the active backend, in this thread.

    Args:
        core: Implementations of core operations, by name.
        nn: Implementations of activations, by name.
        numpy: Implementations of operations that NumPy has too, by name.
        normalizations: Implementations of `layer_normalization` and `rms_normalization`, by name.
        recurrence: The loop of recurrent layers over the steps.
    """
    from keras.src import backend
    from keras.src.ops import nn as normalizations_module

    private = {f"_{name}": function for name, function in (normalizations or {}).items()}
    owners = [(backend.core, core), (backend.nn, nn), (backend.numpy, numpy), (normalizations_module, private)]
    owners += [(backend, {"rnn": recurrence})] if recurrence is not None else []
    return replaced_functions(
        (module, name, function) for module, functions in owners for name, function in (functions or {}).items()
    )


def float64_promoted() -> AbstractContextManager[None]:
    """Keeps float64 in `keras.ops`, in this thread. On JAX and PyTorch, many operations round float64 to float32.

    Keras rounds when it computes the common dtype of two operands, even if JAX is set to 64 bits.
    """
    from keras.src.backend.common import dtypes

    thread, usual = threading.get_ident(), dtypes.BIT64_TO_BIT32_DTYPE

    class Kept(dict[str, str]):
        def get(self, dtype: str, default: Any = None) -> Any:
            is_kept = dtype == "float64" and threading.get_ident() == thread
            return dtype if is_kept else super().get(dtype, default)

    return replaced_attributes(dtypes, {"BIT64_TO_BIT32_DTYPE": Kept(usual)})


@contextlib.contextmanager
def named_functions(model: Any) -> Iterator[dict[str, Callable[..., Any]]]:
    """Has a model's Lambda layers serialize their functions as names, which a custom object scope resolves.

    Keras writes the code of a lambda, which runs without the globals that it was written among, such as `ops`. The
    value of the context holds the functions by these names.
    """
    from keras.layers import Lambda

    functions: dict[str, Callable[..., Any]] = {}

    def as_name(usual: Callable[..., Any], function: Callable[..., Any]) -> dict[str, Any]:
        name = f"{__name__}.function_{len(functions)}"
        functions[name] = function
        return {"class_name": "function", "config": name, "module": "builtins", "registered_name": name}

    lambdas = [layer for layer in all_layers(model) if isinstance(layer, Lambda)]
    with replaced_functions((layer, "_serialize_function_to_config", as_name) for layer in lambdas):
        yield functions


def sequential_models_built_once() -> AbstractContextManager[None]:
    """Builds the graph of a Sequential model once when Keras reads its configuration, in this thread.

    Keras builds a new graph after each layer, so its time grows with the square of the depth.
    """
    import keras

    usual, thread = vars(keras.Sequential)["from_config"], threading.get_ident()

    def from_config(cls: Any, config: dict[str, Any], custom_objects: Any = None) -> Any:
        layers = config.get("layers") or ()
        is_plain = cls is keras.Sequential and threading.get_ident() == thread
        if not is_plain or not all("module" in layer for layer in layers):
            return usual.__func__(cls, config, custom_objects)
        read = [keras.saving.deserialize_keras_object(layer, custom_objects=custom_objects) for layer in layers]
        model = keras.Sequential(read, name=config["name"])
        shape = config.get("build_input_shape")
        if shape and functional_of(model) is model:
            model.build(shape)
        return model

    return replaced_attributes(keras.Sequential, {"from_config": classmethod(from_config)})


def repair_tf2onnx() -> None:
    """Lets tf2onnx 1.17 run with NumPy 2, as Keras' own export does."""
    from keras.src.export.tf2onnx_lib import patch_tf2onnx

    with warnings.catch_warnings():
        # Keras evaluates `hasattr(np, "object")`, for which NumPy 2.4 warns about a future meaning.
        warnings.filterwarnings("ignore", message=".*np.object.*", category=FutureWarning)
        patch_tf2onnx()


def seed_generators(layer: Any) -> list[Any]:
    """Returns the generators of random numbers that a layer holds, in the order of their creation."""
    return list(getattr(layer, "_seed_generators", ()))


def random_functions() -> Any:
    """Returns the module of the backend whose functions draw the numbers of `keras.random`."""
    from keras.src import backend

    return backend.random
