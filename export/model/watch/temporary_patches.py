"""Functions and attributes of layers and modules replaced within a `with` statement, for one thread at a time."""

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
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

    with replaced_on_each((owner, {name: chosen(f, getattr(owner, name))}) for owner, name, f in replacements):
        yield


@contextlib.contextmanager
def replaced_on_each(replacements: Iterable[tuple[Any, Mapping[str, Any]]]) -> Iterator[None]:
    """Gives each of several owners other attributes, as `replaced_attributes` does."""
    with one_at_a_time, contextlib.ExitStack() as stack:
        for owner, values in replacements:
            stack.enter_context(replaced_attributes(owner, values))
        yield


@contextlib.contextmanager
def replaced_attributes(owner: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Gives a layer, class, operation or module other attributes, while every other thread that would do so waits."""
    own, is_class = vars(owner), isinstance(owner, type)  # setattr() of a layer would track the values
    store, remove = (partial(setattr, owner), partial(delattr, owner)) if is_class else (own.__setitem__, own.pop)
    with one_at_a_time:
        before = {name: own[name] for name in values if name in own}
        for name, value in values.items():
            store(name, value)
        try:
            yield
        finally:
            for name in values:
                remove(name)
            for name, value in before.items():
                store(name, value)


@contextlib.contextmanager
def tensorflow_log(level: int) -> Iterator[None]:
    """Lets TensorFlow log messages of a level and above only, in all threads."""
    log = logging.getLogger("tensorflow")
    usual = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(usual)
