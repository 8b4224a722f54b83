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
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import peers  # noqa: E402

SANITIZER_TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
DRIVERS = ("am-tcp", "unix", "tls")
RATIOS_FIRST = ("of_best_peer", "of_copy", "of_matmul", "of_bf16_time", "of_read")


class Run:
    def __init__(self, kit, device, out, seconds):
        self.kit, self.out = kit, out
        self.is_real = device != "double"
        self.device = device if self.is_real else "cuda:0"
        self.ends = time.monotonic() + seconds
        self.figures, self.skipped, self.failed = [], [], []
        self.limits = {}  # this device's: copy GB/s, matmul TFLOP/s

    def left(self):
        return self.ends - time.monotonic()

    def skip(self, section, why):
        self.skipped.append({"section": section, "why": why})
        print(f"{section:10} skipped: {why}", flush=True)

    def fail(self, section, why):
        self.failed.append({"section": section, "why": why})
        print(f"{section:10} FAILED: {why}", flush=True)

    def say(self, figure):
        self.figures.append(figure)
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
        library_path = f"{self.kit / 'lib'}" + ("" if self.is_real else f":{self.kit / 'double'}")
        return [str(loader), "--library-path", library_path, path, *arguments]

    def program(self, section, program, *arguments, limit_s=120, prefix=()):
        """Its output, or None: skipped or failed, and said."""
        if not (self.kit / "bin" / program).exists():
            self.skip(section, f"the kit has no {program}")
            return None
        limit_s = min(limit_s, self.left())
        if limit_s < 5:
            self.skip(section, "no time is left")
            return None
        try:
            done = subprocess.run([*prefix, *self.command(program, *arguments)], env=self.environment(), cwd=self.kit,
                                  timeout=limit_s, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except subprocess.TimeoutExpired as expired:
            text = expired.stdout or b""
            self.keep(section, program, text if isinstance(text, str) else text.decode(errors="replace"))
            self.fail(section, f"{program} took more than {limit_s:.0f} s")
            return None
        self.keep(section, program, done.stdout)
        if done.returncode != 0:
            self.fail(section, f"{program} ended with {done.returncode}: {' '.join(done.stdout.split())[-300:]}")
            return None
        return done.stdout

    def keep(self, section, program, text):
        with open(self.out / f"{section}.log", "a") as log:
            log.write(f"== {program}\n{text}\n")


def figures_of(output):
    for line in output.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def arguments_of(run):
    return [run.device] if run.is_real else [run.device, "--toy"]


def conform(run):
    output = run.program("conform", "gpu_conform", *arguments_of(run))
    for figure in figures_of(output or ""):
        run.say(figure)
        if figure["verdict"] != "ok":
            run.fail("conform", figure["name"])


def cases(run):
    if not run.is_real:
        return run.skip("cases", "the double's kernels reach no memory of the host: simt_cases has run them")
    output = run.program("cases", "gpu_cases", run.device, limit_s=170)
    for figure in figures_of(output or ""):
        run.say(figure)


def sanitizer(run):
    found = shutil.which("compute-sanitizer")
    if not run.is_real or not found:
        return run.skip("sanitizer", "there is no compute-sanitizer" if run.is_real else "it needs a GPU")
    for tool in SANITIZER_TOOLS:
        prefix = [found, "--tool", tool, "--error-exitcode", "9"]
        output = run.program("sanitizer", "gpu_cases", run.device, "--toy", limit_s=45, prefix=prefix)
        if output is not None:
            last = [line for line in output.splitlines() if "SUMMARY" in line][-1:]
            run.say({"section": "sanitizer", "name": tool, "verdict": "ok", "said": " ".join(last).strip("= ")})


def speed(run, section, compare):
    output = run.program(section, "gpu_bench", *arguments_of(run), section, limit_s=100)
    for figure in figures_of(output or ""):
        try:
            compare(run, figure)
        except Exception as error:  # a peer's trouble is no trouble of ours
            run.skip(section, f"peer of {figure['name']}: {str(error).splitlines()[0][:120] if str(error) else repr(error)}")
        run.say(figure)


def copy(run):
    def compare(run, figure):
        run.limits["copy"] = figure["gbs"]
        peer = peers.copy_gbs() if run.is_real else None
        if peer:
            run.limits["copy"] = max(peer, figure["gbs"])
            figure.update(peer_gbs=peer, of_copy=figure["gbs"] / peer)
    speed(run, "copy", compare)


def prefill(run):
    def compare(run, figure):
        times = peers.prefill_us(figure) if run.is_real else {}
        beside(figure, times)
    speed(run, "prefill", compare)


def decode(run):
    bf16_us = {}

    def compare(run, figure):
        shape = (figure["math"], figure["batch"], figure["tokens"])
        if "copy" in run.limits:
            figure["of_copy"] = figure["gbs"] / run.limits["copy"]
        if figure["cache"] == "BF16":
            bf16_us[shape] = figure["us"]
            beside(figure, peers.decode_us(figure) if run.is_real else {})
        elif shape in bf16_us:
            figure["of_bf16_time"] = figure["us"] / bf16_us[shape]
    speed(run, "decode", compare)


def products(run):
    def compare(run, figure):
        if "copy" in run.limits:
            figure["of_copy"] = figure["gbs"] / run.limits["copy"]
        if figure["weights"] == "BF16":
            beside(figure, peers.product_us(figure) if run.is_real else {})
    speed(run, "products", compare)


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
    made = subprocess.run([sys.executable, str(run.kit / "bench" / "make_model.py"), str(folder), "--dtype", "bf16"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if made.returncode != 0:
        return run.skip("model", f"make_model.py: {' '.join(made.stdout.split())[-160:]}")
    for weights in ("auto", "int8"):
        output = run.program("model", "model_bench", str(folder), "2", "bf16", weights, "compute", f"--device={run.device}",
                             limit_s=60)
        for figure in figures_of(output or ""):
            run.say({"section": "model", "name": f"135 M, weights {weights}", **figure})
    shutil.rmtree(folder, ignore_errors=True)


def handover(run):
    for driver in DRIVERS:
        output = run.program("handover", "transfer_bench", f"--{driver}", "--json", f"--device={run.device}", limit_s=40)
        for figure in figures_of(output or ""):
            run.say({"section": "handover", "name": driver, **figure})


SECTIONS = {f.__name__: f for f in (conform, cases, sanitizer, copy, prefill, decode, products, model, handover)}


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
    run = Run(options.kit.resolve(), options.device, options.out.resolve(), options.seconds)
    started = time.monotonic()
    if run.is_real:
        print(peers.describe(), flush=True)
    for section in options.sections or SECTIONS:
        SECTIONS[section](run)
    commit = (run.kit / "commit").read_text().strip() if (run.kit / "commit").exists() else "unknown"
    result = {"device": options.device, "commit": commit, "figures": run.figures, "skipped": run.skipped, "failed": run.failed}
    (run.out / "measure.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(run.figures)} figures, {len(run.skipped)} skipped, {len(run.failed)} failed, "
          f"{time.monotonic() - started:.0f} s, of {commit}")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
