"""`keras-pe` and `python -m keras_pe`: the command line, or what is missing for it."""

import sys


def main() -> None:
    """Runs the command line."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        missing = f"keras-pe needs the package {error.name!r}. Install it with: pip install 'keras-pe[cli]'"
        print(missing, file=sys.stderr)
        sys.exit(2)
    from keras_pe.cli import main as command

    command(prog_name="keras-pe")


if __name__ == "__main__":
    main()
