"""The connector to Ray: an executor of actors that keep the loaded model, and restart elsewhere after a loss."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


@contextlib.contextmanager
def ray_executor(place: str) -> Iterator[Executor]:
    """Yields an executor of a running cluster, and ends its actors, not the cluster, at the end.

    Args:
        place: HOST:PORT of a Ray client server; empty for Ray on this machine, which is started if it does not run.

    Raises:
        ImportError: If the package is not installed.
        OSError: If nobody answers there.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("ray:// needs the package 'ray'. Install it with: pip install 'keras-pe[ray]'") from error
    is_ours = not ray.is_initialized()
    if is_ours:
        address = f"ray://{place}" if place else None
        ray.init(address, log_to_driver=False, include_dashboard=False, configure_logging=False)
    executor = RayExecutor()
    try:
        yield executor
    finally:
        executor.shutdown()
        if is_ours:
            ray.shutdown()


class RayExecutor(Executor):
    """Runs functions in actors of the Ray cluster that this process is connected to, one for each of its processors."""

    def __init__(self) -> None:
        import ray

        count = int(ray.cluster_resources().get("CPU", 1))
        actor = ray.remote(max_restarts=-1, max_task_retries=2)(_Caller)
        self._actors = [actor.remote() for _ in range(count)]
        self._busy = [0] * count
        self._lock = threading.Lock()

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        with self._lock:
            number = self._busy.index(min(self._busy))
            self._busy[number] += 1
        answer: Future[_T] = Future()

        def hand_over(done: Any) -> None:
            with self._lock:
                self._busy[number] -= 1
            if not answer.set_running_or_notify_cancel():
                return
            error = done.exception()
            if error is None:
                answer.set_result(done.result())
            else:  # Ray wraps the error of a task in one that tells its traceback
                answer.set_exception(getattr(error, "cause", None) or error)

        self._actors[number].call.remote(fn, args, kwargs).future().add_done_callback(hand_over)
        return answer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        import ray

        for actor in self._actors:
            ray.kill(actor)
        self._actors = []


class _Caller:
    """An actor that runs any function."""

    def call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return fn(*args, **kwargs)
