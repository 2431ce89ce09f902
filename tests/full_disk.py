"""A disk that is full: the system refuses to let a file grow beyond some bytes, as it does where none are left."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Lets this process write no file of more bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
