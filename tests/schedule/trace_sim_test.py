"""trace_sim: prints what schedule/README.md shows, and what it says about the policies is so.

    trace_sim_test.py PROGRAM            compares; --write first puts the table into the README
"""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "schedule" / "README.md"
BETWEEN = re.compile(r"(<!-- trace_sim: begin -->\n```\n)(.*?)(```\n<!-- trace_sim: end -->)", re.S)
ROW = re.compile(r"(poisson|bursts|long prompts) +(\S+) +" + r" +".join([r"([\d.]+)"] * 9))
FIGURES = ["ttft_p50", "ttft_p99", "itl_p50", "itl_p99", "tokens", "goodput", "good", "pauses", "again"]


def output(program: str, *arguments: str) -> str:
    return subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout


def rows(text: str) -> dict[tuple[str, str], dict[str, float]]:
    return {(m.group(1), m.group(2)): dict(zip(FIGURES, map(float, m.groups()[2:]))) for m in ROW.finditer(text)}


def check_policies(table: dict[tuple[str, str], dict[str, float]]) -> None:
    assert len(table) == 9, sorted(table)
    for (trace, policy), row in table.items():
        assert (row["pauses"] > 0) <= (policy == "max-utilization"), (trace, policy, row)
        assert (row["again"] > 0) == (row["pauses"] > 0), (trace, policy, row)
    for trace in ("poisson", "bursts", "long prompts"):
        most, safe, static = (table[trace, p] for p in ("max-utilization", "no-evict", "static-batch"))
        assert most["ttft_p99"] < safe["ttft_p99"] < static["ttft_p99"], trace
        assert most["goodput"] >= safe["goodput"] > static["goodput"], trace
    assert table["bursts", "max-utilization"]["pauses"] > 0


def main() -> None:
    program = sys.argv[1]
    printed = output(program)
    readme = README.read_text()
    if "--write" in sys.argv:
        README.write_text(readme := BETWEEN.sub(lambda m: m.group(1) + printed + m.group(3), readme))
    shown = BETWEEN.search(readme)
    assert shown and shown.group(2) == printed, f"{README} shows another table than:\n{printed}"
    check_policies(rows(printed))
    other = output(program, "--seed=2", "--requests=100")
    assert other != printed and len(rows(other)) == 9
    refused = subprocess.run([program, "--seed=x"], capture_output=True, text=True)
    assert refused.returncode == 2 and "--rate_milli=" in refused.stdout


if __name__ == "__main__":
    main()
