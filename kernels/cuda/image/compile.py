#!/usr/bin/env python3
"""compile.py - one unit for one architecture: SOURCE -> OUT.ptx -> OUT.cubin, and OUT.log with what ptxas said.

    compile.py --nvcc NVCC --root FOLDER --architecture 90a SOURCE OUT

OUT.d lists the files that were read. The last line of the log is `cpu seconds N`. Python 3, standard library only.
"""

import argparse
import re
import resource
import subprocess
import sys
from pathlib import Path

# A product and a sum are fused where a kernel says so (multiply_add), and nowhere else, as on the host: where the compiler would, bits
# would depend on a row's place in an unrolled loop.
FLAGS = ["-std=c++17", "-O3", "-fmad=false"]


def run(command: list[str]) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc", required=True, type=Path)
    parser.add_argument("--root", required=True, help="what includes are relative to")
    parser.add_argument("--architecture", required=True)
    parser.add_argument("source")
    parser.add_argument("out")
    options = parser.parse_args()

    ptx, cubin, depends = (f"{options.out}.{kind}" for kind in ("ptx", "cubin", "d"))
    said = run([str(options.nvcc), *FLAGS, f"-I{options.root}", "-ptx", f"-arch=compute_{options.architecture}",
                "-MD", "-MF", depends, "-o", ptx, options.source])
    said += run([str(options.nvcc.with_name("ptxas")), "-O3", "-v", f"-arch=sm_{options.architecture}", "-o", cubin, ptx])
    listed = Path(depends).read_text()
    Path(depends).write_text(re.sub(r"\A.*?:", f"{cubin} :", listed, count=1, flags=re.S))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(f"{options.out}.log").write_text(f"{said}cpu seconds {used.ru_utime + used.ru_stime:.2f}\n")


if __name__ == "__main__":
    main()
