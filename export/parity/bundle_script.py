"""Runs a replay bundle without keras_pe: `python failure.npz [ARTIFACT]`. A bundle holds this file as `__main__.py`.

`python failure.npz --part` runs the part of an ONNX file that fails alone, without the artifact. The script needs NumPy
and the runtime of the failure: onnxruntime, ai-edge-litert or tensorflow. The exit code is 1 if an
expected output still differs, 0 if none does, and 2 if the script cannot run.
"""

import io
import json
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]
Run = Callable[[Arrays], Arrays]

_LEVELS = {"disabled": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "layout": "ENABLE_LAYOUT"}


def _open_onnx(path: str | bytes, variant: str, signature: str = "") -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    level = f"ORT_{_LEVELS.get(variant, 'ENABLE_ALL')}"
    options.log_severity_level = 3  # errors only, which are raised as well
    # An older release has no level of its own for layouts.
    options.graph_optimization_level = getattr(levels, level, levels.ORT_ENABLE_ALL)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, dict(inputs)), strict=True))


def _open_litert(path: str, variant: str, signature: str) -> Run:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if variant == "builtin" else OpResolverType.AUTO
    interpreter = Interpreter(model_path=path, experimental_op_resolver_type=resolver)
    keys = sorted(interpreter.get_signature_list(), key=lambda key: (key != signature, key != "serving_default"))
    if keys:
        runner = interpreter.get_signature_runner(keys[0])
        return lambda inputs: {name: np.array(value) for name, value in runner(**inputs).items()}

    def run(inputs: Arrays) -> Arrays:  # finds tensors by name, since the file has no signature
        details = interpreter.get_input_details()
        places = {each["name"]: each["index"] for each in details}
        places |= {each["name"].removeprefix("serving_default_").partition(":")[0]: each["index"] for each in details}
        for name, array in inputs.items():
            interpreter.resize_tensor_input(places[name], array.shape, strict=True)
        interpreter.allocate_tensors()
        for name, array in inputs.items():
            interpreter.set_tensor(places[name], array)
        interpreter.invoke()
        return {each["name"]: interpreter.get_tensor(each["index"]) for each in interpreter.get_output_details()}

    return run


def _open_saved_model(path: str, variant: str, signature: str) -> Run:
    import tensorflow as tf

    module = tf.saved_model.load(path)  # keeps the variables of the signature alive
    serve = module.signatures["serving_default"]

    def run(inputs: Arrays, _: Any = module) -> Arrays:
        outputs = serve(**{name: tf.constant(value) for name, value in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}

    return run


_OPENERS: dict[str, Callable[[str, str, str], Run]] = {
    "onnx": _open_onnx,
    "litert": _open_litert,
    "tf_saved_model": _open_saved_model,
}


def _read(bundle: Path) -> tuple[list[dict[str, Any]], list[Arrays]]:
    """Returns the failures, and the sets of arrays that the failures refer to by number."""
    with zipfile.ZipFile(bundle) as file:

        def as_array(found: dict[str, Any]) -> Any:
            if found.keys() - {"trailing_nuls"} != {"array", "dtype"} or not isinstance(found["dtype"], str):
                return found
            array = np.lib.format.read_array(io.BytesIO(file.read(f"{found['array']}.npy")), allow_pickle=False)
            if found["dtype"] == "bfloat16":
                return (array.astype(np.uint32) << 16).view(np.float32)  # NumPy has no bfloat16
            if found["dtype"] != "object":
                return array
            texts = array.astype(object)
            for place, length in found.get("trailing_nuls", ()):  # NumPy's text types drop trailing NULs
                texts.flat[place] += (b"\0" if array.dtype.kind == "S" else "\0") * length
            return texts

        content = json.loads(file.read("manifest.json"), object_hook=as_array)
    return content["failures"], content["arrays"]


def largest_difference(expected: Any, actual: Any) -> float:
    """Returns the largest difference of two arrays, or infinity if their shapes, texts or NaNs differ."""
    if expected.shape != actual.shape:
        return np.inf
    if expected.dtype.kind in "OSU":
        return 0.0 if np.array_equal(expected, actual) else np.inf
    wide, other = (
        np.asarray(each, np.complex128 if each.dtype.kind == "c" else np.float64) for each in (expected, actual)
    )
    same = (wide == other) | (np.isnan(wide) & np.isnan(other))
    differences = np.where(same, 0.0, np.abs(wide - other))
    return float(np.nan_to_num(differences, nan=np.inf).max(initial=0.0))


def _limit(expected: Any, was: float) -> float:
    """Returns the least difference that counts as a fault: half of the recorded one.

    Rounding on another machine stays below this limit. The limit is 100 float32 roundings of the largest expected
    value if the recorded difference is zero or infinite.
    """
    if 0 < was < np.inf:
        return was / 2
    is_number = expected.dtype.kind in "biufc"
    largest = float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)) if is_number else 0.0
    return max(100 * 2.0**-24 * largest, float(np.finfo(np.float32).tiny))


def _replay(failure: Mapping[str, Any], arrays: list[Arrays], home: Path, given: str | None) -> bool:
    """Runs one failure, prints its differences, and returns whether the failure persists."""
    places = [Path(given)] if given else [home / failure["from_here"], Path(failure["artifact"])]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        print(f"The artifact is missing: {places[0]}. Name it: python {sys.argv[0]} ARTIFACT", file=sys.stderr)
        sys.exit(2)
    signature = f"#{failure['signature']}" if failure["signature"] else ""
    print(
        f"{failure['runtime']} on {path.name}{signature}, case {failure['case']!r}; recorded with {failure['version']}"
    )
    *before, inputs = (arrays[number] for number in failure["fed"])
    expected, chunks = arrays[failure["expected"]], failure["chunks"]
    try:
        run = _OPENERS[failure["format"]](str(path), failure["variant"], failure["signature"])
        for each in before:
            run(each)
        actual = run(inputs) if chunks is None else _run_sequence(run, inputs, chunks, expected)
    except ImportError:
        raise
    except Exception as error:  # the recorded failure may be an error of the runtime
        print(f"  {type(error).__name__}: {error}")
        return True
    return _differs(actual, expected, arrays[failure["actual"]])


def _run_sequence(run: Run, inputs: Arrays, chunks: Mapping[str, Any], expected: Arrays) -> Arrays:
    """Returns the joined outputs of the calls of a sequence, by the functions that the bundle holds."""
    from chunked_calls import ignore_padding, run_in_chunks  # type: ignore[import-not-found]

    outputs: Arrays = run_in_chunks(run, inputs, chunks["sizes"], chunks["axes"], chunks["carried"], chunks["growing"])
    if chunks["padding"] is not None:
        outputs = ignore_padding(outputs, expected, inputs[chunks["padding"]], chunks["carried"])
    return outputs


def _differs(actual: Arrays, expected: Arrays, recorded: Arrays) -> bool:
    """Prints the largest difference of each output, and returns whether one counts as a fault."""
    is_there = False
    for output, value in expected.items():
        if output not in actual:
            print(f"  {output}: missing")
            is_there = True
            continue
        now = largest_difference(value, actual[output])
        was = largest_difference(value, recorded[output]) if output in recorded else np.inf
        print(f"  {output}: largest difference {now:.2g}, recorded {was:.2g}")
        is_there |= now >= _limit(value, was)
    return is_there


def _run_parts(failures: list[dict[str, Any]], bundle: Path) -> bool:
    """Runs each part that fails alone, prints its differences, and returns whether one still fails."""
    found = []
    for number, failure in enumerate(failures):
        part = failure["part"]
        if isinstance(part, str):
            print(f"{failure['runtime']}: {part}", file=sys.stderr)
            continue
        with zipfile.ZipFile(bundle) as file:
            model = file.read(f"part-{number}.onnx")
        print(f"{failure['runtime']} on part-{number}.onnx ({len(model)} bytes) from {', '.join(part['inputs'])}")
        found.append(_differs(_open_onnx(model, failure["variant"])(part["inputs"]), part["expected"], part["actual"]))
    if not found:
        sys.exit(2)
    return any(found)


def main() -> None:
    """Replays every failure of the bundle that contains this file, or runs its parts."""
    bundle, given = Path(sys.argv[0]), sys.argv[1] if len(sys.argv) > 1 else None
    failures, arrays = _read(bundle)
    try:
        if given == "--part":
            sys.exit(1 if _run_parts(failures, bundle) else 0)
        found = [_replay(failure, arrays, bundle.parent, given) for failure in failures]
    except ImportError as error:
        print(f"It needs the package {error.name!r}.", file=sys.stderr)
        sys.exit(2)
    sys.exit(1 if any(found) else 0)


if __name__ == "__main__":
    main()
