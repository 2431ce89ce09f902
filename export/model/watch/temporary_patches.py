"""Functions and attributes of layers and modules replaced within a `with` statement, for one thread at a time."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

# Held while layers have methods of their own, and while a model is traced: one export at a time, each in its turn.
one_at_a_time = threading.RLock()


@contextlib.contextmanager
def replaced_functions(replacements: Iterable[tuple[Any, str, Callable[..., Any]]]) -> Iterator[None]:
    """Gives layers, operations or modules other functions in this thread: any other sees them as they were.

    Args:
        replacements: Each owner, the name of its function, and what is called instead: with the usual function and then
            its arguments.
    """
    thread = threading.get_ident()

    def chosen(function: Callable[..., Any], usual: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(usual)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(usual, *args, **kwargs) if threading.get_ident() == thread else usual(*args, **kwargs)

        return call

    with one_at_a_time, contextlib.ExitStack() as stack:
        for owner, name, function in replacements:
            stack.enter_context(replaced_attributes(owner, {name: chosen(function, getattr(owner, name))}))
        yield


@contextlib.contextmanager
def replaced_attributes(owner: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Gives a layer, operation or module other attributes, while every other thread that would do so waits."""
    own = vars(owner)
    with one_at_a_time:
        before = {name: own[name] for name in values if name in own}
        own.update(values)  # setattr() would track them
        try:
            yield
        finally:
            for name in values:
                del own[name]
            own.update(before)
