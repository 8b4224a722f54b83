"""Runs the attacks and prints the table of docs/security.md.

    abuse.py KVFERRY_BINARY MODEL_FOLDER [--short] [--memory] [--only WORD] [--table FILE]

--short: those marked so, two seconds each, as every test run does. --memory: those about memory.
--only: those whose text has the word.
--table: writes the table into that file, between its two marks. Exit status 1 when any outcome is wrong.
"""

import argparse
import importlib
import pathlib
import sys
import traceback

from attack import ATTACKS

MODULES = ["http2", "http1", "control_port", "certificates_port", "data_port", "tenants", "crowds", "texts"]
BEGIN, END = "<!-- abuse.py -->\n", "<!-- end -->\n"


def table(results):
    lines = ["| tried | without a defence | now |", "|---|---|---|"]
    lines += [f"| {item.tried} | {item.before} | {now} |" for item, now in results]
    return "\n".join(lines) + "\n"


def write(path, text):
    page = path.read_text()
    head, rest = page.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    path.write_text(head + BEGIN + text + END + tail)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", type=pathlib.Path)
    options = parser.parse_args()
    here = pathlib.Path(__file__).parent
    for module in MODULES:
        if (here / f"{module}.py").exists():
            importlib.import_module(module)

    results, n_wrong = [], 0
    for item in ATTACKS:
        if (options.short and not item.is_short) or (options.memory and not item.is_about_memory):
            continue
        if options.only not in item.tried:
            continue
        try:
            now = item.run(options.binary, options.model, 2 if options.short else 10)
        except Exception:
            traceback.print_exc()
            now = "WRONG"
            n_wrong += 1
        results.append((item, now))
        print(f"{item.tried}: {now}", flush=True)
    if options.table:
        write(options.table, table(results))
    print(f"{len(results)} attacks, {n_wrong} with a wrong outcome")
    return 1 if n_wrong or not results else 0


if __name__ == "__main__":
    sys.exit(main())
