#!/usr/bin/env python3
"""measure - runs the programs of a kit, section by section, within a time; collects their figures, puts peers beside them.

    measure.py --kit FOLDER --device cuda:0|double --out FOLDER [--seconds N] [SECTION...]

A program prints one JSON object a figure. A section that cannot run here is said to be skipped, with the reason; one that
fails does not end the others. Python 3, standard library; PyTorch and FlashInfer where they can be imported.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import peers  # noqa: E402

# device/cuda_image.c asks for a kernel's parameters until the driver says that there are no more: no error.
SANITIZER_OPTIONS = {"memcheck": ("--report-api-errors", "no")}
SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
DRIVERS = ("am-tcp", "unix", "tls", "cuda-ipc")
# Seconds of each section of 470 in all; what one does not take is the next one's.
BUDGET = {"conform": 65, "bits": 30, "cases": 90, "sanitizer": 75, "ceilings": 20, "prefill": 45, "decode": 60, "products": 25,
          "model": 40, "handover": 20}
RATIOS_FIRST = ("of_best_peer", "of_copy", "of_matmul", "of_bf16_time", "of_read")


class Run:
    def __init__(self, kit, device, out, seconds, sections):
        self.kit, self.out = kit, out
        self.is_real = device != "double"
        self.device = device if self.is_real else "cuda:0"
        now = time.monotonic()
        self.ends = self.section_ends = now + seconds
        # When each section has to have ended, if the sections before it took all that was theirs.
        share = seconds / sum(BUDGET[s] for s in sections)
        self.ends_of = {s: now + share * sum(BUDGET[t] for t in sections[:i + 1]) for i, s in enumerate(sections)}
        self.figures, self.skipped, self.failed = [], [], []
        self.limits = {}  # this device's: copy GB/s, matmul TFLOP/s
        self.cublas = folder_of_cublas() if self.is_real else None

    def left(self):
        return self.section_ends - time.monotonic()

    def run_section(self, section, function):
        self.section_ends = self.ends_of[section]
        try:
            function(self)
        except Exception as error:  # a section's trouble is not the next one's
            self.fail(section, f"{type(error).__name__}: {first_line(error)}")

    def peer(self, section, name, measure):
        """What a peer's measurement gives, or {}: said why. It ends when the section's time does."""
        def on_alarm(number, frame):
            raise TimeoutError("no time is left")
        if not self.is_real:
            return {}
        seconds = int(self.left())
        if seconds < 2:
            self.skip(section, f"peers of {name}: no time is left")
            return {}
        signal.signal(signal.SIGALRM, on_alarm)
        signal.alarm(seconds)
        try:
            return measure() or {}
        except Exception as error:  # a peer's trouble is no trouble of ours
            self.skip(section, f"peers of {name}: {first_line(error)}")
            return {}
        finally:
            signal.alarm(0)

    def skip(self, section, why):
        self.skipped.append({"section": section, "why": why})
        print(f"{section:10} skipped: {why}", flush=True)

    def fail(self, section, why):
        self.failed.append({"section": section, "why": why})
        print(f"{section:10} FAILED: {why}", flush=True)

    def say(self, figure):
        self.figures.append(figure)
        self.show(figure)

    def show(self, figure):
        shown = {k: v for k, v in figure.items() if k not in ("section", "name")}
        ordered = [k for k in RATIOS_FIRST if k in shown] + [k for k in shown if k not in RATIOS_FIRST]
        text = "  ".join(f"{k} {shown[k]:.4g}" if isinstance(shown[k], float) else f"{k} {shown[k]}" for k in ordered)
        print(f"{figure['section']:10} {figure['name']:34} {text}", flush=True)

    def environment(self):
        """Programs of the kit find their libraries beside them; without a GPU the driver is the double."""
        made = dict(os.environ)
        if not self.is_real:
            made["LD_LIBRARY_PATH"] = str(self.kit / "double")
        return made

    def command(self, program, *arguments):
        """By the kit's own loader and libraries, whatever the machine has."""
        loader = self.kit / "lib" / "ld-linux-x86-64.so.2"
        path = str(self.kit / "bin" / program)
        if not loader.exists():
            return [path, *arguments]
        # It replaces the variable of that name, by which a machine may say where its driver is.
        others = os.environ.get("LD_LIBRARY_PATH", "") if self.is_real else str(self.kit / "double")
        library_path = ":".join(str(folder) for folder in (self.kit / "lib", others, self.cublas) if folder)
        return [str(loader), "--library-path", library_path, path, *arguments]

    def program(self, section, program, *arguments, limit_s=120, prefix=(), may_end_with=0, name=""):
        """Its output, as far as it came, or None: skipped or failed, and said. may_end_with: a status that says what its figures say."""
        name = f"{program} {name}".strip()
        if not (self.kit / "bin" / program).exists():
            self.skip(section, f"the kit has no {program}")
            return None
        limit_s = min(limit_s, self.left())
        if limit_s < 1:
            self.skip(section, f"{name}: no time is left")
            return None
        try:
            done = subprocess.run([*prefix, *self.command(program, *arguments)], env=self.environment(), cwd=self.kit,
                                  timeout=limit_s, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except subprocess.TimeoutExpired as expired:
            text = expired.stdout or b""
            text = text if isinstance(text, str) else text.decode(errors="replace")
            self.keep(section, program, text)
            self.fail(section, f"{name} took more than {limit_s:.0f} s")
            return text[:text.rfind("\n") + 1]  # whole figures
        self.keep(section, program, done.stdout)
        if done.returncode not in (0, may_end_with):
            self.fail(section, f"{name} ended with {done.returncode}: {' '.join(done.stdout.split())[-300:]}")
            return None
        return done.stdout

    def commit(self):
        file = self.kit / "commit"
        return file.read_text().strip() if file.exists() else "unknown"

    def write(self):
        result = {"device": self.device, "commit": self.commit(), "figures": self.figures, "skipped": self.skipped,
                  "failed": self.failed}
        (self.out / "measure.json").write_text(json.dumps(result, indent=1) + "\n")

    def keep(self, section, program, text):
        with open(self.out / f"{section}.log", "a") as log:
            log.write(f"== {program}\n{text}\n")


def folder_of_cublas():
    """Where PyTorch's packages have NVIDIA's library of products, or None."""
    for folder in sys.path:
        for library in sorted(Path(folder or ".").glob("nvidia/*/lib/libcublasLt.so.1[23]")):
            return library.parent
    return None


def first_line(error):
    return str(error).splitlines()[0][:120] if str(error) else repr(error)


def figures_of(output):
    for line in output.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def arguments_of(run):
    return [run.device] if run.is_real else [run.device, "--toy"]


def conform(run):
    """All go to the JSON; the table has what is wrong, and a line of all."""
    output = run.program("conform", "gpu_conform", *arguments_of(run), may_end_with=3)
    figures = list(figures_of(output or ""))
    run.figures += figures
    for figure in figures:
        if figure["verdict"] != "ok":
            run.show(figure)
            run.fail("conform", f"{figure['name']}, {figure['kind']}")
    if figures:
        worst = max(figures, key=lambda figure: figure["of_allowed"])
        run.say({"section": "conform", "name": f"{len(figures)} comparisons", "of_allowed": worst["of_allowed"],
                 "worst": worst["name"], "n": sum(figure["n"] for figure in figures)})


def bits(run):
    """A check that failed names its first difference."""
    output = run.program("bits", "gpu_bits", *arguments_of(run), may_end_with=3)
    for figure in figures_of(output or ""):
        run.say(figure)
        if figure["verdict"] != "ok":
            run.fail("bits", f"{figure['name']}: {figure['first']}")


def cases(run):
    if not run.is_real:
        return run.skip("cases", "the double's kernels reach no memory of the host: simt_cases has run them")
    seconds = max(int(run.left()) - 10, 5)  # a case that has begun ends
    output = run.program("cases", "gpu_cases", run.device, str(seconds), limit_s=seconds + 20)
    for figure in figures_of(output or ""):
        run.say(figure)


def sanitizer(run):
    found = shutil.which("compute-sanitizer")
    if not run.is_real or not found:
        return run.skip("sanitizer", "there is no compute-sanitizer" if run.is_real else "it needs a GPU")
    for tool in SANITIZER_TOOLS:
        prefix = [found, "--tool", tool, "--error-exitcode", "9", *SANITIZER_OPTIONS.get(tool, ())]
        output = run.program("sanitizer", "gpu_cases", run.device, "--toy", limit_s=45, prefix=prefix, name=tool)
        if output is not None:
            last = [line for line in output.splitlines() if "SUMMARY" in line][-1:]
            run.say({"section": "sanitizer", "name": tool, "verdict": "ok", "said": " ".join(last).strip("= ")})


def speed(run, section, part, compare):
    output = run.program(section, "gpu_bench", *arguments_of(run), part)
    for figure in figures_of(output or ""):
        figure["section"] = section
        compare(figure)
        run.say(figure)


def of_limits(run, figure):
    """Shares of what this machine can do, measured in this run."""
    if "copy" in run.limits and "gbs" in figure:
        figure["of_copy"] = figure["gbs"] / run.limits["copy"]
    if "matmul" in run.limits and "tflops" in figure:
        figure["of_matmul"] = figure["tflops"] / run.limits["matmul"]


def ceilings(run):
    """What everything else is a share of: bytes copied, and a large product in BF16."""
    def compare(figure):
        best = run.peer("ceilings", "copy", lambda: {"gbs": peers.copy_gbs()}).get("gbs")
        run.limits["copy"] = max(best or 0, figure["gbs"])
        if best:
            figure.update(peer_gbs=best, of_copy=figure["gbs"] / run.limits["copy"])
    speed(run, "ceilings", "copy", compare)
    matmul = run.peer("ceilings", "matmul", lambda: {"tflops": peers.matmul_tflops()}).get("tflops")
    if not matmul:
        return run.skip("ceilings", "matmul: PyTorch with a GPU measures it")
    run.limits["matmul"] = matmul
    run.say({"section": "ceilings", "name": "matmul BF16 8192^3, PyTorch", "tflops": matmul})


def prefill(run):
    def compare(figure):
        beside(figure, run.peer("prefill", figure["name"], lambda: peers.prefill_us(figure)))
        of_limits(run, figure)
    speed(run, "prefill", "prefill", compare)


def decode(run):
    bf16_us = {}

    def compare(figure):
        shape = (figure["math"], figure["batch"], figure["tokens"])
        of_limits(run, figure)
        if figure["cache"] == "BF16":
            bf16_us[shape] = figure["us"]
            beside(figure, run.peer("decode", figure["name"], lambda: peers.decode_us(figure)))
        elif shape in bf16_us:
            figure["of_bf16_time"] = figure["us"] / bf16_us[shape]
    speed(run, "decode", "decode", compare)


def products(run):
    def compare(figure):
        of_limits(run, figure)
        if figure["weights"] == "BF16":
            beside(figure, run.peer("products", figure["name"], lambda: peers.product_us(figure)))
    speed(run, "products", "products", compare)


def beside(figure, times):
    for name, us in times.items():
        figure[f"{name}_us"] = us
    if times:
        figure["of_best_peer"] = min(times.values()) / figure["us"]


def model(run):
    """A Llama of 135 M parameters with random weights, made here."""
    if not run.is_real:
        return run.skip("model", "over the double a token of such a model takes minutes")
    folder = run.out / "model-135m"
    made = subprocess.run([sys.executable, str(run.kit / "tests" / "bench" / "make_model.py"), str(folder), "--dtype", "bf16"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        return run.skip("model", f"make_model.py: {' '.join(made.stdout.split())[-160:]}")
    cells = [("auto", "bf16"), ("auto", "compute"), ("int8", "bf16")]
    if run.cublas:
        cells.append(("auto", "bf16", "--kernels=cublaslt"))
    else:
        run.skip("model", "products by cuBLASLt: Python's packages have no libcublasLt here")
    for weights, attention, *more in cells:
        output = run.program("model", "model_bench", str(folder), "2", "bf16", weights, attention, *more, f"--device={run.device}",
                             limit_s=60, name=" ".join((weights, attention, *more)))
        for figure in figures_of(output or ""):
            run.say({"section": "model", "name": f"135 M, weights {weights}, attention {attention}{', cuBLASLt' if more else ''}", **figure})
    shutil.rmtree(folder, ignore_errors=True)


def handover(run):
    for driver in DRIVERS:
        output = run.program("handover", "transfer_bench", f"--{driver}", "--json", f"--device={run.device}", limit_s=40)
        for figure in figures_of(output or ""):
            run.say({"section": "handover", "name": driver, **figure})


SECTIONS = {f.__name__: f for f in (conform, bits, cases, sanitizer, ceilings, prefill, decode, products, model, handover)}
assert SECTIONS.keys() == BUDGET.keys()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kit", type=Path, required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=470)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=" ".join(SECTIONS))
    options = parser.parse_args()
    for section in options.sections:
        if section not in SECTIONS:
            parser.error(f"section {section}: none of {' '.join(SECTIONS)}")
    sections = list(dict.fromkeys(options.sections)) or list(SECTIONS)
    run = Run(options.kit.resolve(), options.device, options.out.resolve(), options.seconds, sections)
    started = time.monotonic()
    if run.is_real:
        print(peers.describe(), flush=True)
    for section in sections:
        run.run_section(section, SECTIONS[section])
        run.write()  # whatever ends the next one
    print(f"{len(run.figures)} figures, {len(run.skipped)} skipped, {len(run.failed)} failed, "
          f"{time.monotonic() - started:.0f} s, of {run.commit()}")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
