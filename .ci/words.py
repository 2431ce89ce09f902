"""Reports sentences and names that are hard to read. CONTRIBUTING.md states the rules.

Usage: python .ci/words.py [PATH...]    exit code 1 if it reports anything
"""

import ast
import inspect
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

ROOT = Path(__file__).parent.parent
RENDERED = ("docs/gallery.md", "docs/benchmarks.md")  # printed by programs
MOST_WORDS = 25
LEAST_WORDS = 5  # the shortest message
PRODUCT = ("export", "keras_pe")  # folders whose strings are messages
HEADLESS = re.compile(r"(?:What|Of|Who|Whose|Those|Where|Which)\b(?!.*\?$)")
RULES = {
    "a headless clause": HEADLESS,
    "'is none', 'is no', 'is such'": re.compile(
        r".*(?<!there )\b(?:is|are) (?:none\b|such\b(?! (?:that|as))|no (?!longer|more))"
    ),
    "a program that speaks": re.compile(
        r".*\b(?:(?:is|are|was|were) (?:told|asked|said)|tells (?:it|them|of)|told by)\b"
    ),
}
# The rules of the first sentence of a docstring.
SUMMARY_RULES = RULES | {
    "more than two pronouns": re.compile(r"(?:.*?\b(?:that|which|what|whose|it|those)\b){3}", re.IGNORECASE),
}
PARTICIPLE = re.compile(
    r"_*(?:(?!need|feed|seed|embed|speed)[a-z]+ed|told|kept|held|apart|given|found|said|made|seen|of_\w+)"
)
CODE = re.compile(
    r"`[^`]*`|\]\([^)]*\)|https?://\S+|^ *(?:>>>|\.\.\.) .*$|^ {4,}\S.* {3,}\S.*$|^ *(?:Source|Formula):\n(?: .*\n?)*",
    re.MULTILINE,
)
FENCE = re.compile(r"\A---\n.*?\n---\n|^ *(```|~~~|:::).*?^ *\1$|^[#|<:][^\n]*$", re.DOTALL | re.MULTILINE)
END = re.compile(r"(?<=[.!?:;])\s+(?=[A-Z([*{\"])|(?<=[.!?])\s+(?=\d)|\n\s*\n|\n\s*(?:[-*|]|\d\.) |\n +\w+: |\n\w+: ")


def sentence_faults(text: str, line: int, is_docstring: bool = False) -> Iterator[tuple[int, str]]:
    """Yields the line of each faulty sentence of a text, and the rule with the sentence."""
    text = CODE.sub(lambda found: "Code" + "\n" * found[0].count("\n"), text)
    start = 0
    for end in [*END.finditer(text), None]:
        words = text[start : end.start() if end else None].split()
        here = line + text[:start].count("\n")
        sentence = " ".join(words)
        if len(words) > MOST_WORDS:
            yield here, f"more than {MOST_WORDS} words: {sentence}"
        for name, rule in (SUMMARY_RULES if is_docstring and not start else RULES).items():
            if rule.match(sentence):
                yield here, f"{name}: {sentence}"
        start = end.end() if end else start


def name_faults(node: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """Yields the line and the rule of a function's name that is a participle or begins without a noun."""
    if PARTICIPLE.fullmatch(node.name) and not node.decorator_list:
        yield node.lineno, f"a name without a verb or a noun: {node.name}"
    if node.name != "of" and HEADLESS.match(node.name.removeprefix("test_").partition("_")[0].capitalize()):
        yield node.lineno, f"a headless name: {node.name}"


def comments(path: Path) -> dict[int, str]:
    """Returns the comments of a module by their first lines; a comment of several lines is one text."""
    found: dict[int, str] = {}
    last = first = 0
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT and not re.match(r"#!|# (?:type:|noqa|fmt:)", token.string):
                is_alone = token.line.lstrip().startswith("#")
                first = first if is_alone and token.start[0] == last + 1 else token.start[0]
                last = token.start[0] if is_alone else 0
                text = token.string.strip("# ")
                found[first] = f"{found[first]}\n{text}" if first in found else text[:1].upper() + text[1:]
    return found


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the line and the text of each string that a user may read, which has several words in one line."""
    docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Constant) and node not in docstrings | parts:
            values = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(each.value) if isinstance(each, ast.Constant) else "Code" for each in values)
            if "\n" not in text and len(re.findall(r"\b[a-z]{2,}\b", text)) >= LEAST_WORDS:
                yield node.lineno, text


def python_faults(path: Path) -> Iterator[tuple[int, str]]:
    """Yields the faults of a module's docstrings, names, comments and messages."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield from name_faults(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from sentence_faults(inspect.cleandoc(node.value.value), node.lineno, is_docstring=True)
    in_product = any(path.is_relative_to(ROOT / folder) for folder in PRODUCT)
    for line, prose in [*comments(path).items(), *(messages(tree) if in_product else ())]:
        yield from sentence_faults(prose, line)


def is_within(name: str, paths: Iterable[str]) -> bool:
    """Returns whether one of the paths is this file or a folder around it."""
    return any(PurePath(name).is_relative_to(each) for each in paths)


def main() -> None:
    """Prints the faults of the tracked files, or of those in the given paths."""
    paths = sys.argv[1:] or ["."]
    count = 0
    for name in subprocess.check_output(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, text=True).split():
        if (ROOT / name).is_file() and is_within(name, paths) and not is_within(name, RENDERED):
            text = (ROOT / name).read_text("utf-8")
            prose = FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
            for line, fault in python_faults(ROOT / name) if name.endswith(".py") else sentence_faults(prose, 1):
                count += 1
                print(f"{name}:{line}: {fault}")
    sys.exit(f"{count} places to rewrite" if count else 0)


if __name__ == "__main__":
    main()
