"""The entry point of `keras-pe` and `python -m keras_pe`, which names packages that are missing."""

import sys

from keras_pe.cli.standard_streams import run


def main() -> None:
    """Runs the command line and ends the process."""
    run(_command)


def _command() -> int:
    """Returns the exit code."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        missing = f"keras-pe needs the package {error.name!r}. Install it with: pip install 'keras-pe[cli]'"
        print(missing, file=sys.stderr)
        return 2
    from keras_pe.cli.group import main as command

    try:
        command(prog_name="keras-pe")
    except SystemExit as ended:  # click ends so
        return ended.code if isinstance(ended.code, int) else 2
    return 2


if __name__ == "__main__":
    main()
