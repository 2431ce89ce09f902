"""Shared options of the commands, and the parsers of their values."""

import enum
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from keras_pe.export.model.border import Border

Value = TypeVar("Value")
Command = Callable[..., Any]


class InputPath(click.Path):
    """The path of a file or a folder. Another kind, such as a named pipe, is an error: reading it may never end."""

    def __init__(self, exists: bool = True, dir_okay: bool = True) -> None:
        super().__init__(exists=exists, dir_okay=dir_okay, path_type=Path)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Returns the path, or raises BadParameter."""
        try:
            problem = self.describe_problem(Path(value))
        except OSError as error:  # The name is too long, or the user may not look into a folder of the path.
            problem = f"{value} cannot be read: {error.strerror}."
        if problem:
            self.fail(problem, parameter, context)
        return super().convert(value, parameter, context)

    def describe_problem(self, path: Path) -> str:
        """Returns why the path cannot be an input, in sentences; an empty text if it may be one."""
        is_other = path.exists() and not path.is_file() and not path.is_dir()
        return f"{path} must be a file or a folder. Received: a pipe or a device." if is_other else ""


class SavedPath(InputPath):
    """A path that exists. The prefix of a TensorFlow checkpoint is an error that names it."""

    def describe_problem(self, path: Path) -> str:
        """As in the base class."""
        from keras_pe.export.model.foreign_file import describe_foreign

        return super().describe_problem(path) or ("" if path.exists() else describe_foreign(path))


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Returns what gives a command some options, in this order."""
    return lambda command: functools.reduce(lambda given, option: option(given), reversed(options), command)


def passed_options(context: click.Context) -> dict[str, str]:
    """Returns what stands on the command line: each option and argument as it is written, by its name."""
    named = {parameter.name or "": parameter.opts[0] for parameter in context.command.params}
    is_given = click.core.ParameterSource.COMMANDLINE
    return {name: option for name, option in named.items() if context.get_parameter_source(name) == is_given}


def json_option(what: str) -> Callable[[Command], Command]:
    """Returns the option of a command that prints one thing as JSON."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON, and nothing else.")


class Verbosity(enum.Enum):
    """How much a command prints."""

    QUIET = "--quiet"
    NORMAL = ""
    VERBOSE = "--verbose"


def _verbosity(context: click.Context, parameter: click.Parameter, chosen: bool) -> bool:
    """Sets the parameter `verbosity` of a command, or raises UsageError if its options contradict each other."""
    before = context.params.setdefault("verbosity", Verbosity.NORMAL)
    if chosen and before is not Verbosity.NORMAL:
        raise click.UsageError("--quiet and --verbose must not be given together.")
    if chosen:
        context.params["verbosity"] = Verbosity(parameter.opts[-1])
    return chosen


def verbosity_options(*, quiet: str, verbose: str) -> Callable[[Command], Command]:
    """Returns the options of a command that takes `verbosity`, with their help texts."""
    flags = functools.partial(click.option, is_flag=True, expose_value=False, callback=_verbosity)
    return with_options(flags("-q", "--quiet", help=quiet), flags("-v", "--verbose", help=verbose))


def by_name(
    context: click.Context, parameter: click.Parameter, pairs: Iterable[tuple[str, Value]], of: str = "name"
) -> dict[str, Value]:
    """Returns what an option says of each name, or raises UsageError if it speaks of one twice."""
    found: dict[str, Value] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{parameter.opts[0]} must be given once for each {of}. Received: {name} twice.")
        found[name] = value
    return found


def _sizes(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Returns the sizes by the name of the dimension: "height=64,224" gives {"height": (64, 224)}."""
    return by_name(context, parameter, map(_sizes_of, texts), of="dimension")


def _sizes_of(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = text.rpartition("=")  # a file of another exporter may call a dimension "n=1"
    try:
        sizes = tuple(int(number) for number in numbers.split(","))
    except ValueError:
        sizes = ()
    if not name or not sizes or min(sizes) < 1:
        raise click.UsageError(f"--sizes must be NAME=SIZE,SIZE with whole numbers from 1. Received: {text}.")
    return name, sizes


sizes_option = click.option(
    "--sizes",
    multiple=True,
    callback=_sizes,
    metavar="NAME=SIZE,SIZE",
    help="Sizes that a dynamic dimension takes, such as height=64,224. An export fixes a dimension with one size.",
)

model_options = with_options(
    click.option(
        "--import",
        "modules",
        multiple=True,
        metavar="MODULE",
        help="Import this module first, which registers layers of your own. It may be in the working folder.",
    ),
    click.option(
        "--unsafe",
        is_flag=True,
        help="Load Python code in the file, such as the code of a Lambda layer. Only for files from a trusted source.",
    ),
)


def _atol(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> float | Mapping[str, float]:
    """Returns the tolerance of all outputs, or by the name of the output: "score=1e-3" gives {"score": 1e-3}."""
    pairs: list[tuple[str, float]] = []
    for text in texts:
        name, separator, value = text.rpartition("=")
        try:
            pairs.append((name, float(value if name or not separator else text)))
        except ValueError:
            raise click.BadParameter(f"It must be VALUE or OUTPUT=VALUE. Received: {text}.") from None
    of_all = [value for name, value in pairs if not name]
    if of_all and len(pairs) > 1:
        raise click.BadParameter(f"It must be one VALUE, or OUTPUT=VALUE for each. Received: {' '.join(texts)}.")
    return of_all[0] if of_all else by_name(context, parameter, pairs, of="output") or 0.0


# The fields of an `Allowance`.
allowance_options = with_options(
    click.option("--rtol", type=float, default=0.0, help="Accept a relative difference up to this share of the value."),
    click.option(
        "--atol",
        multiple=True,
        callback=_atol,
        metavar="[OUTPUT=]VALUE",
        help="Accept an absolute difference up to this value, in every output or in one.",
    ),
    click.option("--precision", help="Accept the rounding errors of a type: float16, bfloat16, int8 or int4."),
    click.option(
        "--allow-changed",
        type=float,
        default=0.0,
        show_default=True,
        help="Accept changes in this share of the decisions, or of the rows of --data.",
    ),
)


def _pairs(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, str]:
    """Returns what stands behind each name."""
    pairs = []
    for text in texts:
        name, _, value = text.partition("=")
        if not name or not value:
            raise click.UsageError(f"{parameter.opts[0]} must be NAME=VALUE. Received: {text}.")
        pairs.append((name, value))
    return by_name(context, parameter, pairs)


def _files(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, Path]:
    return {name: Path(file) for name, file in _pairs(context, parameter, texts).items()}


def _outputs(context: click.Context, parameter: click.Parameter, texts: Iterable[str]) -> dict[str, str]:
    return _pairs(context, parameter, (text if "=" in text else f"{text}={text}" for text in texts))


# The fields of a `Border`, see `border_of`.
BORDER_FIELDS = ("batch", "renamed", "dtypes", "layout", "preprocessing", "outputs", "postprocessing", "state")
border_options = with_options(
    click.option(
        "--batch", type=click.IntRange(min=1), help="Fix the size of the batch. Default: the batch of the model."
    ),
    click.option(
        "--dtype",
        "dtypes",
        multiple=True,
        callback=_pairs,
        metavar="NAME=DTYPE",
        help="The type of an input or output, such as image=uint8.",
    ),
    click.option(
        "--rename-input",
        "renamed",
        multiple=True,
        callback=_pairs,
        metavar="NEW=NAME",
        help="The name of an input in the artifact, and its name in the model.",
    ),
    click.option(
        "--layout",
        multiple=True,
        callback=_pairs,
        metavar="NAME=LAYOUT",
        help="channels_first or channels_last, for an input or output with the other layout in the model.",
    ),
    click.option(
        "--preprocessing",
        multiple=True,
        callback=_files,
        metavar="NAME=MODEL",
        help="A .keras file of a model that computes an input of MODEL.",
    ),
    click.option(
        "--output",
        "outputs",
        multiple=True,
        callback=_outputs,
        metavar="[NEW=]NAME",
        help="An output to keep. Default: all.",
    ),
    click.option(
        "--postprocessing",
        multiple=True,
        callback=_pairs,
        metavar="NAME=STEP",
        help="A step on the last axis of an output: argmax, softmax, sigmoid, or a count such as top5.",
    ),
    click.option(
        "--state",
        type=click.Choice(["arguments"]),
        help="Make each variable that a call assigns an input and an output of the artifact.",
    ),
)


def border_of(fields: Mapping[str, Any], load: Callable[[Path], Any]) -> "Border | None":
    """Returns the border that the options name, None where none is given.

    Args:
        fields: The values of `border_options`.
        load: Returns the model of a file.

    Raises:
        ValueError: If a value is not one that a border has, or a file cannot be loaded.
    """
    from keras_pe.export import Border

    given = {"inputs" if name == "renamed" else name: fields[name] for name in BORDER_FIELDS if fields[name]}
    if "preprocessing" in given:
        given["preprocessing"] = {name: load(file) for name, file in given["preprocessing"].items()}
    return Border(**given) if given else None
