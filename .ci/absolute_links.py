"""Makes the links of a README absolute, so that they lead somewhere from an index: what a release publishes.

Usage: python .ci/absolute_links.py README.md https://HOST/OWNER/NAME TAG
"""

import re
import sys
from pathlib import Path


def absolute(text: str, repository: str, tag: str) -> str:
    """Returns the text with its relative links as addresses in a repository: pictures raw, other files as pages."""
    return re.sub(
        r"(!?)(\[[^\]]*\])\((?!https?:|#)([^)]+)\)",
        lambda link: f"{link[1]}{link[2]}({repository}/{'raw' if link[1] else 'blob'}/{tag}/{link[3]})",
        text,
    )


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(absolute(path.read_text(), *sys.argv[2:]))
