"""Type protocols of Keras' objects, since Keras' classes have no type information.

Results that are tensors are `Any`: a tensor can do all that its backend can, which no protocol says.
"""

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Tensor(Protocol):
    """A tensor of any backend, symbolic or not, or a NumPy array."""

    @property
    def shape(self) -> Any:
        """One entry a dimension; None where it is not known."""

    @property
    def dtype(self) -> Any:
        """The element type, as the backend writes it."""

    def __getitem__(self, index: Any) -> Any:
        """Returns a part."""


@runtime_checkable
class Layer(Protocol):
    """A Keras layer."""

    name: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the layer makes of its inputs."""

    def get_config(self) -> dict[str, Any]:
        """Returns what makes the layer again."""


@runtime_checkable
class Model(Layer, Protocol):
    """A Keras model: Functional, Sequential or a subclass."""

    @property
    def layers(self) -> Any:
        """The layers of the first floor."""

    @property
    def weights(self) -> Any:
        """All variables, those that are not trained among them."""

    def stateless_call(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the results and the new state, of variables that are handed in."""


class CachedModel(Model, Protocol):
    """A language model whose `call` takes tokens `[batch, length]`, and which can go on from a cache.

    `call` returns the logits of whole sequences. `step` must return the same logits for the tokens of one call.
    """

    @property
    def cache_shapes(self) -> Any:
        """The heads and channels of each array in the cache, as pairs: keys and values of each layer in turn."""

    def step(self, tokens: Any, cache: Any, positions: Any, mask: Any) -> Any:
        """Returns the logits of tokens, and the cache with the rows of these tokens at its end.

        Args:
            tokens: The tokens of the call, integers `[batch, length]`.
            cache: The arrays of earlier calls, each `[batch, heads, past, channels]`.
            positions: The position of each token, integers `[batch, length]`.
            mask: Whether a token attends to a row of the new cache, booleans `[batch, length, past + length]`.
        """
