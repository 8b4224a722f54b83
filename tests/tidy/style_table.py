#!/usr/bin/env python3
"""style_table - how the code reads, in figures: a row a folder. A look, not a gate.

    style_table.py [--root FOLDER] [FOLDER...]     all folders of the table in CMakeLists.txt, and their sum

Lines are lines with something on them, comments those with nothing but a comment. Asserts are those of the `.c`
files a thousand of their lines, static ones apart. Parameters: the share of functions with more than five.
"""

import argparse
import re
import statistics
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
from tidy import Tree, functions, without_comments  # noqa: E402

PARAMETERS_MAX = 5
HEADS = ("folder", "files", "median", "max", "functions", "median", "p95", "max", "comments", "asserts", "parameters")


class Figures(NamedTuple):
    files: list[int]       # lines of each
    functions: list[int]   # likewise
    parameters: list[int]  # of each function
    lines: int
    comments: int          # lines
    c_lines: int
    asserts: int


def parameter_counts(text: str) -> Iterator[int]:
    """Of each function that is defined: clang-format puts its name into column 0."""
    for head in re.finditer(r"^\w[^;{}=#]*?\b\w+\(([^;{}]*)\)\s*\{", without_comments(text), re.M):
        listed = re.sub(r"\([^()]*\)", "", head.group(1)).strip()
        yield 0 if listed in ("", "void") else listed.count(",") + 1


def comment_lines(text: str) -> int:
    bare = without_comments(text, keep_strings=True).splitlines()
    return sum(1 for line, left in zip(text.splitlines(), bare) if line.strip() and not left.strip())


def figures_of(tree: Tree, paths: list[str]) -> Figures:
    figures = Figures([], [], [], 0, 0, 0, 0)
    lines = comments = c_lines = asserts = 0
    for path in paths:
        text = tree.text(path)
        n = sum(1 for line in text.splitlines() if line.strip())
        figures.files.append(len(text.splitlines()))
        figures.functions.extend(n_lines for _, _, n_lines in functions(text))
        figures.parameters.extend(parameter_counts(text))
        lines, comments = lines + n, comments + comment_lines(text)
        if path.endswith(".c"):
            c_lines += n
            asserts += len(re.findall(r"(?<!\w)assert\(", without_comments(text)))
    return figures._replace(lines=lines, comments=comments, c_lines=c_lines, asserts=asserts)


def row(name: str, of: Figures) -> tuple:
    lengths = sorted(of.functions) or [0]
    many = sum(1 for n in of.parameters if n > PARAMETERS_MAX)
    return (name, len(of.files), round(statistics.median(of.files)), max(of.files), len(of.functions),
            round(statistics.median(lengths)), lengths[int(0.95 * (len(lengths) - 1))], lengths[-1],
            f"{100 * of.comments / of.lines:.0f} %", f"{1000 * of.asserts / max(of.c_lines, 1):.1f}",
            f"{100 * many / max(len(of.parameters), 1):.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args()
    tree = Tree(options.root)
    code = tree.code(tests=bool(options.folders))
    names = options.folders or list(tree.depends())
    files = {name: [path for path in code if path.startswith(f"{name}/")] for name in names}
    rows = [row(name, figures_of(tree, paths)) for name, paths in files.items() if paths]
    if len(rows) > 1:
        rows.append(row("all", figures_of(tree, [path for paths in files.values() for path in paths])))
    widths = [max(len(str(one[i])) for one in [HEADS, *rows]) for i in range(len(HEADS))]
    for one in [HEADS, *rows]:
        print("  ".join(str(cell).ljust(width) if i == 0 else str(cell).rjust(width)
                        for i, (cell, width) in enumerate(zip(one, widths))))


if __name__ == "__main__":
    main()
