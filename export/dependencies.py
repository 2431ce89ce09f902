"""What an exporter needs: packages."""

import importlib
import importlib.util


def require(caller: str, *packages: str, extra: str = "export") -> None:
    """Raises ImportError, with the command that helps, unless the packages are installed. Imports none of them."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            try:
                importlib.import_module(package)
            except ImportError as error:
                raise ImportError(
                    f"{caller}() needs the package '{package}'. Install it with: pip install 'keras-pe[{extra}]'"
                ) from error
