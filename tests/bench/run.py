"""Runs the benchmarks and prints a table and JSON: run.py BUILD_FOLDER PEERS_FOLDER [section...]

Sections: kernels, gemm, transfer, handover, tokenize, memory, model. Ratios come from one run.
"""

import json
import pathlib
import re
import subprocess
import sys

BUILD, PEERS = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
SECTIONS = sys.argv[3:] or ["kernels", "gemm", "transfer", "handover", "tokenize", "memory", "model"]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "roles"))
from cluster import Cluster  # noqa: E402
DEMO = str(HERE.parent.parent / "model" / "demo")
BINARY = str(BUILD / "kvferry")
THREADS = "2"
rows, results = [], {}


def program(name, *arguments):
    """Runs a benchmark program; returns the JSON objects among its lines, prints the others."""
    path = BUILD / "tests" / "bench" / name
    run = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{name} failed:\n{run.stdout}{run.stderr}")
    objects = []
    for line in run.stdout.splitlines():
        if line.startswith("{"):
            objects.append(json.loads(line))
        else:
            print(line)
    return objects


def row(what, value, goal="", met=None):
    rows.append((what, value, goal, "" if met is None else "met" if met else "MISSED"))


def kernels():
    results["kernels"] = program("attention_bench", THREADS, "--json")


def gemm():
    results["gemm"] = program("gemm_bench", THREADS, "--json")


def transfer():
    results["transfer"] = program("transfer_bench")
    for result in results["transfer"]:
        if "ratio" in result:
            row(f"transfer of 64 MiB, {result.get('driver', '')}", f"{result['ratio']:.2f} x raw UCX",
                ">= 0.8", result["ratio"] >= 0.8)


def handover():
    split = Cluster(BINARY, DEMO, True, "--threads", "1")
    single = Cluster(BINARY, DEMO, False, "--threads", "1")
    (result,) = program("handover_bench", "handover", split.router.port("grpc"),
                        single.router.port("grpc"), "512", "100")
    split.stop()
    single.stop()
    results["handover"] = result
    row("hand-over of 512 tokens, median", f"{result['overhead_us'] / 1000:.2f} ms", "< 2 ms",
        result["overhead_us"] < 2000)


def tokenize():
    cluster = Cluster(BINARY, DEMO, False)
    results["tokenize"] = [
        program("handover_bench", "tokenize", cluster.router.port("grpc"), str(n), "3")[0]
        for n in (1, 64)
    ]
    cluster.stop()
    for result in results["tokenize"]:
        row(f"unary Tokenize, {result['concurrency']} at once", f"{result['calls_per_s']:.0f} calls/s")


def pool_mib(process):
    """Of the line `kv plan blocks N of T tokens, M MiB ...` in its log."""
    process.log.flush()
    text = pathlib.Path(process.log.name).read_text()
    return float(re.search(r"kv plan .*?([0-9.]+) MiB", text).group(1))


def memory():
    cluster = Cluster(BINARY, DEMO, True)
    (served,) = program("handover_bench", "tokenize", cluster.router.port("grpc"), "64", "2")
    weights = pathlib.Path(DEMO, "model.safetensors").stat().st_size / 2**20
    router = cluster.router.resident_mib()
    results["memory"] = {"router_mib": router, "calls_per_s": served["calls_per_s"]}
    row("resident memory of the router", f"{router:.0f} MiB", "< 40 MiB", router < 40)
    for name, worker in (("context", cluster.context), ("generation", cluster.generation)):
        used, limit = worker.resident_mib(), weights + pool_mib(worker) + 60
        results["memory"][f"{name}_mib"] = used
        row(f"resident memory of the {name} worker", f"{used:.0f} MiB", f"< {limit:.0f} MiB",
            used < limit)
    cluster.stop()


def model():
    for dtype in ("f32", "bf16"):
        folder = PEERS / f"llama-135m-{dtype}"
        if not (folder / "model.gguf").exists():
            subprocess.run([sys.executable, HERE / "make_model.py", folder, "--dtype", dtype],
                           check=True)
        (ours,) = program("model_bench", str(folder), THREADS)
        peer = subprocess.run(
            [sys.executable, HERE / "llama_peer.py", folder / "model.gguf", THREADS],
            capture_output=True, text=True, check=True)
        theirs = json.loads(peer.stdout.splitlines()[-1])
        results[f"model_{dtype}"] = {"ours": ours, "peer": theirs}
        for cell, speed in theirs.items():
            if cell == "peer":
                continue
            goal = 0.7 if cell.startswith("prefill") else 0.9
            ratio = ours[cell] / speed
            row(f"135 M {dtype} {cell}", f"{ours[cell]:.0f} tokens/s = {ratio:.2f} x llama.cpp",
                f">= {goal}", ratio >= goal)


for section in SECTIONS:
    print(f"== {section}", flush=True)
    globals()[section]()

print(f"\n{'figure':46} {'measured':40} {'goal':12} ")
for what, value, goal, met in rows:
    print(f"{what:46} {value:40} {goal:12} {met}")
(BUILD.parent / "bench.json").write_text(json.dumps(results, indent=1))
print(f"JSON: {BUILD.parent / 'bench.json'}")
