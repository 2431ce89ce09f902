"""The names of the runtimes outside this Python."""

import functools
import shutil
import subprocess

from keras_pe.export.runtimes import RuntimeName, RuntimeSpec
from keras_pe.export.runtimes.external.hosts import missing_in

_FACTORY = "keras_pe.export.runtimes.external.onnxruntime:ExternalOnnxRuntime"
_LITERT_JS = "keras_pe.export.runtimes.external.litertjs:LiteRTJsRuntime"
_LEVELS = ("disabled", "basic", "extended", "all")  # "layout" is unknown to older releases
_PATIENCE = 60.0  # seconds for another Python to import ONNX Runtime
_COMPLETE: set[str] = set()  # Pythons that were seen to have all that is needed


def _in_javascript(package: str, host: str, provider: str, variant: str = "", module: str = "") -> RuntimeSpec:
    name = package.replace("-", "_") + (f"[{variant}]" if variant else "")
    options = {"host": host, "package": package, "module": module, "variant": variant, "provider": provider}
    install = f"npm install --ignore-scripts {package}"
    find_missing = functools.partial(missing_in, host, package)
    return RuntimeSpec(name, "onnx", _FACTORY, package, install, options, by_default=False, find_missing=find_missing)


def _litertjs(accelerator: str) -> RuntimeSpec:
    package = "@litertjs/core"
    return RuntimeSpec(
        f"litertjs[{accelerator}]",
        "litert",
        _LITERT_JS,
        package,
        f"npm install --ignore-scripts {package}",
        {"accelerator": accelerator},
        by_default=False,
        find_missing=functools.partial(missing_in, "chromium", package),
    )


# Places that few ship to, and that take seconds to start: by name only.
IN_JAVASCRIPT = (
    _in_javascript("onnxruntime-node", "node", "cpu"),
    _in_javascript("onnxruntime-web", "node", "wasm", "wasm"),
    _in_javascript("onnxruntime-web", "chromium", "wasm", "chromium-wasm", "ort.wasm.bundle.min.mjs"),
    _in_javascript("onnxruntime-web", "chromium", "webgpu", "webgpu", "ort.webgpu.bundle.min.mjs"),
    # `import "onnxruntime-web"` gives the older implementation of WebGPU in 1.30.
    _in_javascript("onnxruntime-web", "chromium", "webgpu", "webgpu-jsep", "ort.bundle.min.mjs"),
    _litertjs("wasm"),
    _litertjs("webgpu"),
)


def in_other_installation(name: str) -> RuntimeSpec | None:
    """Returns ONNX Runtime of another Python: "onnxruntime@/path/to/python", or "onnxruntime[basic]@..." .

    None of a name without a place.

    Raises:
        ValueError: If it is another runtime than that, or of an unknown level.
    """
    parsed = RuntimeName.parse(name)
    level, executable = parsed.variant or "all", parsed.place
    if not executable:
        return None
    if parsed.family != "onnxruntime" or level not in _LEVELS:
        raise ValueError(
            "A runtime in another installation must be onnxruntime@PYTHON, or onnxruntime[LEVEL]@PYTHON "
            f"with one of the levels {', '.join(_LEVELS)}. Received: {name!r}."
        )
    return RuntimeSpec(
        name,
        "onnx",
        _FACTORY,
        "onnxruntime",
        f"{executable} -m pip install numpy onnxruntime",
        {"host": "python", "executable": executable, "level": level},
        by_default=False,
        find_missing=functools.partial(_missing_in_python, executable),
    )


def _missing_in_python(executable: str) -> str | None:
    """Names the packages that another Python lacks, or returns None. Found packages are cached."""
    if executable in _COMPLETE:
        return None
    if shutil.which(executable) is None:
        return f"the Python that it names, and there is no program {executable!r}"
    command = [executable, "-I", "-c", "import numpy, onnxruntime"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        return f"a Python that imports ONNX Runtime within {_PATIENCE:g} s, and {executable!r} did not"
    except OSError as error:
        return f"a Python that starts, and {executable!r} does not ({error.strerror})"
    if done.returncode == 0:
        _COMPLETE.add(executable)
        return None
    message = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return (
        f"NumPy and ONNX Runtime in that installation ({message}). "
        f"Install them with: {executable} -m pip install numpy onnxruntime"
    )
