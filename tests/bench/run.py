"""Runs the benchmarks and prints a table and JSON: run.py BUILD_FOLDER PEERS_FOLDER [--quick] [section...]

Sections: attention, gemm, transfer, handover, tokenize, unary, doors, telemetry, security, floods, memory, windows, model, model1b,
kv_dtype, gguf, tiers, speculate, drafts, adapters, slow. Ratios come from one run. --quick: only the cells that goals are stated for, and of the model F32 and BF16 up to 512 tokens.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

BUILD, PEERS = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
IS_QUICK = "--quick" in sys.argv[3:]
SECTIONS = [word for word in sys.argv[3:] if word != "--quick"] or [
    "attention", "gemm", "transfer", "handover", "tokenize", "unary", "doors", "telemetry", "security", "floods", "memory", "windows", "model", "model1b", "kv_dtype", "gguf", "tiers", "speculate", "drafts", "adapters", "slow"]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "roles"))
from certificates import CLUSTER, Folder  # noqa: E402
from cluster import Cluster  # noqa: E402
from tokens import Tokens  # noqa: E402
DEMO = str(HERE.parent.parent / "model" / "demo")
BINARY = str(BUILD / "kvferry")
JSON_FILE = BUILD.parent / "bench.json"
THREADS = "2"
os.environ["OMP_NUM_THREADS"] = THREADS  # oneDNN's
rows, results = [], {}


def program(name, *arguments, kernels=None):
    """Runs a benchmark program; returns the JSON objects among its lines, prints the others.
    kernels: a set to force."""
    path = BUILD / "tests" / "bench" / name
    environment = os.environ | ({"KVFERRY_CPU": kernels} if kernels else {})
    run = subprocess.run([path, *arguments], capture_output=True, text=True, check=False,
                         env=environment)
    if run.returncode != 0:
        raise SystemExit(f"{name} failed:\n{run.stdout}{run.stderr}")
    objects = []
    for line in run.stdout.splitlines():
        if line.startswith("{"):
            objects.append(json.loads(line))
        else:
            print(line)
    return objects


def row(what, measured, goal="", met=None, ratio=None):
    rows.append({"what": what, "measured": measured, "ratio": ratio, "goal": goal, "met": met})


def ratio_row(what, measured, ratio, goal):
    """goal 0 or None: there is none."""
    row(what, measured, f">= {goal}" if goal else "", ratio >= goal if goal else None, ratio)


def kernel_figures(section):
    quick = ["--quick"] if IS_QUICK else []
    machine, *figures = results[section] = program(f"{section}_bench", THREADS, "--json", *quick)
    row(f"this machine, {machine['kernels']}, {machine['threads']} threads",
        f"{machine['fma_gflops']:.0f} GFLOP/s, read {machine['read_gbs']:.1f}, "
        f"copy {machine['copy_gbs']:.1f} GB/s")
    for figure in figures:
        measured = f"{figure['value']:.1f} {figure['unit']}, {figure['of_peak']:.2f} of peak"
        if "peer_us" in figure:
            measured += f", oneDNN {figure['peer_us']:.0f} us"
        ratio_row(f"{figure['section']} {figure['what']}", measured,
                  figure.get("ratio", figure["of_peak"]), figure.get("goal"))


def attention():
    kernel_figures("attention")


def gemm():
    kernel_figures("gemm")


def transfer():
    cpu = {}
    results["transfer"] = []
    for driver in ("am-tcp", "unix", "tls"):
        (result,) = program("transfer_bench", "--json", f"--{driver}")
        results["transfer"].append(result)
        cpu[driver] = result["cpu_s_per_gb"]
        measured = f"{result['kv_gb_s']:.2f} GB/s, {result['ratio']:.2f} x raw UCX"
        ratio_row(f"transfer of 64 MiB, {driver}", measured, result["ratio"],
                  0.8 if driver == "am-tcp" else None)
        row(f"blocks of 16 tokens into blocks of 32, {driver}", f"{result['converted_ratio']:.2f} of the time of equal ones",
            "<= 1.25", result["converted_ratio"] <= 1.25)
    row("CPU of am-tcp, both sides", f"{cpu['am-tcp']:.2f} s a GB")
    row("CPU of unix", f"{cpu['unix']:.2f} s a GB", "half of am-tcp's",
        cpu["unix"] <= cpu["am-tcp"] / 2)
    row("CPU of tls", f"{cpu['tls']:.2f} s a GB", "<= 1.5 s", cpu["tls"] <= 1.5)


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


def unary():
    """ListModels of a router beside gRPC's C++ server, which answers the same message, synchronously and by callbacks."""
    if not (PEERS / "grpcxx_server").exists():
        row("unary calls beside gRPC's C++ server", "run.sh did not build the peer")
        return
    cluster = Cluster(BINARY, DEMO, False, "--threads", "1")
    router = cluster.router.ports["grpc"]
    peers = {kind: subprocess.Popen([PEERS / "grpcxx_server", kind, router], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
             for kind in ("sync", "callback")}
    targets = {"router": (router,)} | {kind: (f"127.0.0.1:{peer.stdout.readline().strip()}",) for kind, peer in peers.items()}
    results["unary"] = {}
    for n_at_once in (1, 8, 64):
        figures = results["unary"][str(n_at_once)] = rpc_rounds(targets, n_at_once, 5)
        calls = {name: one["calls_per_s"] for name, one in figures.items()}
        ratio = calls["router"] / max(calls["sync"], calls["callback"])
        ratio_row(f"ListModels, {n_at_once} at once, beside gRPC's C++ server",
                  ", ".join(f"{name} {rate:.0f}" for name, rate in calls.items()) + " calls/s", ratio, 1)
    for peer in peers.values():
        peer.stdin.close()
        peer.wait()
    cluster.stop()


def telemetry():
    from telemetry import measure

    python = BUILD.parent / "foreign" / "venv" / "bin" / "python"
    found = results["telemetry"] = measure(BINARY, DEMO, python, lambda *words: program("rpc_bench", *words)[0], IS_QUICK)
    nothing = found["busy"].pop("nothing"), found["one by one"].pop("nothing")
    row("generations that nobody watches", f"{nothing[0]['calls_per_s']:.0f} a second, CPU {nothing[0]['cpu_us']:.0f} us, "
        f"first token {nothing[1]['first_p50_us']:.0f} us")
    for name, one in found["busy"].items():
        ratio, goal = one["throughput_ratio"], 0.98 if name == "all" else None
        cpu = f"{one['calls_per_s']:.0f} a second, CPU {one['cpu_more_us']:+.0f} us, {one['cpu_ratio']:.3f}"
        ratio_row(f"generations, watched: {name}", cpu, ratio, goal)
    for name, one in found["one by one"].items():
        more_us, is_judged = one["first_more_us"], name == "all"
        low_us, high_us = one["first_more_us_quartiles"]
        row(f"first token, watched: {name}",
            f"{more_us:+.0f} us ({low_us:+.0f} to {high_us:+.0f}), CPU {one['cpu_more_us']:+.0f} us",
            "< 50 us" if is_judged else "", more_us < 50 if is_judged else None)


def doors():
    """Whole streamed generations through each door of one split cluster, in turn."""
    n_tokens, n_rounds = "64", 5 if IS_QUICK else 15
    cluster = Cluster(BINARY, DEMO, True, "--threads", "1", router_arguments=("--engine-address", "127.0.0.1:0"))
    ports = cluster.router.ports

    def by_rpc(port, door):
        return lambda n: program("rpc_bench", ports[port], "1", n, "--json", "--generate", n_tokens, "--door", door)

    calls = {"kvferry.v1": by_rpc("grpc", "v1"), "HTTP": lambda n: program("http_bench", ports["http"], "1", n, n_tokens),
             "VllmEngine": by_rpc("engine", "engine"), "vllm.Inference": by_rpc("engine", "inference")}
    found = results["doors"] = {}
    for n in ("1", "32"):
        rounds = [{name: call(n)[0] for name, call in calls.items()} for _ in range(n_rounds)]
        for name in calls:
            one = found[f"{name} {n}"] = {key: statistics.median(one[name][key] for one in rounds) for key in rounds[0][name]}
            row(f"streams of {n_tokens} tokens by {name}, {n} at once",
                f"{one['calls_per_s'] * int(n_tokens):.0f} tokens/s, first token {one['first_p50_us']:.0f} us")
        for name in list(calls)[1:]:
            more_us = statistics.median(one[name]["first_p50_us"] - one["kvferry.v1"]["first_p50_us"] for one in rounds)
            ratio = statistics.median(one[name]["calls_per_s"] / one["kvferry.v1"]["calls_per_s"] for one in rounds)
            if n == "1":
                row(f"first token, {name} beside kvferry.v1", f"{more_us:+.0f} us", "< 150 us", more_us < 150)
            ratio_row(f"tokens/s, {name} beside kvferry.v1, {n} at once", f"{ratio:.3f}", ratio, 0.97 if n == "32" else None)
    cluster.stop()


def rpc_rounds(targets, n_at_once, n_rounds=7):
    """By name: the medians of rounds in which each is called in turn. targets: name -> arguments."""
    found = {name: [] for name in targets}
    for _ in range(n_rounds):
        for name, (address, *options) in targets.items():
            (figures,) = program("rpc_bench", address, "1", str(n_at_once), "--json", *options)
            found[name].append(figures)
    return {
        name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        for name, rounds in found.items()
    }


def security_rows(what, targets, base):
    for n_at_once in (1, 64):
        figures = results["security"][f"{what} {n_at_once}"] = rpc_rounds(targets, n_at_once)
        for name, one in figures.items():
            row(f"{what}, {name}, {n_at_once} at once",
                f"{one['calls_per_s']:.0f} calls/s, p50 {one['p50_us']:.0f} us, p99 {one['p99_us']:.0f} us",
                ratio=one["calls_per_s"] / figures[base]["calls_per_s"])


def security():
    """What TLS, certificates, tokens and the key cost: the same calls in turn at processes side by side."""
    results["security"] = {}
    with tempfile.TemporaryDirectory() as home:
        folder = Folder(home)
        folder.make_cluster("acme")
        tokens = Tokens(BINARY, f"{home}/tokens.yaml")
        token = tokens.add("acme")
        key = pathlib.Path(home, "key")
        subprocess.run([BINARY, "key", str(key)], check=True)
        keyed = ("--cluster-key", str(key))
        tls = ("--tls-certificate", str(folder.file("server")), "--tls-key", str(folder.file("server", "key")))
        asks = ("--tls-client-ca", str(folder.file("ca")))

        def start(*router, is_split=False, **more):
            return Cluster(BINARY, DEMO, is_split, "--threads", "1", *keyed,
                           router_arguments=(*keyed, *router), **more)

        clear, over_tls, mutual, tenants = start(), start(*tls), start(*tls, *asks), start("--tokens-file", str(tokens.file))
        ca = ("--ca", str(folder.file("ca")))
        shown = ("--certificate", str(folder.file("acme")), "--key", str(folder.file("acme", "key")))
        security_rows("ListModels", {
            "clear": (clear.router.ports["grpc"],),
            "TLS": (over_tls.router.ports["grpc"], *ca),
            "mTLS": (mutual.router.ports["grpc"], *ca, *shown),
            "tokens": (tenants.router.ports["grpc"], "--token", token),
        }, "clear")
        for cluster in (over_tls, mutual, tenants):
            cluster.stop()
        split = start(is_split=True)
        secure = start(is_split=True, role_arguments=folder.role_arguments)
        role = ("--certificate", str(folder.file("operator")), "--key", str(folder.file("operator", "key")),
                "--cluster", CLUSTER)
        security_rows("GetState", {
            "key": (split.generation.ports["control"], *keyed),
            "key and mTLS": (secure.generation.ports["control"], *keyed, *ca, *role),
        }, "key")
        secure.stop()
        secure = start(is_split=True, role_arguments=folder.peer_arguments)
        for name, cluster in (("key", split), ("key and mTLS", secure)):
            single = start()  # one that has seen none of the prompts
            (result,) = program("handover_bench", "handover", cluster.router.port("grpc"),
                                single.router.port("grpc"), "512", "50")
            single.stop()
            results["security"][f"handover {name}"] = result
            row(f"hand-over of 512 tokens, {name}", f"{result['overhead_us'] / 1000:.2f} ms")
        for cluster in (split, secure, clear):
            cluster.stop()


def floods():
    from floods import JUDGED, NAMES, measure

    results["floods"] = {}
    for name in JUDGED if IS_QUICK else NAMES:
        attacked, burnt, quiet, share = measure(BINARY, DEMO, name)
        ratio = attacked / burnt
        results["floods"][name] = {"p99_ms": attacked, "burnt_p99_ms": burnt, "quiet_p99_ms": quiet, "cores": share}
        row(f"honest p99 beside {name}", f"{attacked:.2f} ms; {share:.2f} cores burnt {burnt:.2f}, quiet {quiet:.2f}",
            "<= 1.5", ratio <= 1.5, ratio)


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


SET_FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm")
# BF16 dot products pay on the matrix unit alone, in a set of kernels for context workers.
HAS_BF16_UNIT = bool(re.search(r"\bamx_bf16\b", pathlib.Path("/proc/cpuinfo").read_text()))
READ_GOAL = 0.85
PREFILL_GOALS = {"f32": 1.5, "bf16": 1.5, "int8": 2}  # by what the weights are loaded as
# Of GGUF files; first_token: from the start of loading, the other way round.
GGUF_GOALS = {"prefill_512": 2, "prefill_2048": 2, "decode_0": 1.1, "decode_4096": 1.5, "batch_8": 2, "batch_16": 2, "first_token": 2}
PEER_GOALS = {"decode_0": 1.1, "decode_4096": 1.4, "batch_8": 1.5, "batch_16": 1.5}
# What a context worker may do besides, by what the weights are loaded as: set of kernels, goal.
# Attention multiplies BF16 then.
PREFILL_OPTIONS = {"bf16": ("amx_bf16", 2), "int8": (None, 3)}
# Weights' dtype, what they are loaded as, and the peers: the fastest of them in a cell is what counts.
MODEL_RUNS = {
    "135m": [("f32", "auto", ["f32"]), ("bf16", "auto", ["f16", "bf16"]), ("bf16", "int8", ["q8_0"])],
    "1.1b": [("bf16", "auto", ["f16"]), ("bf16", "int8", ["q8_0"])],
}
QUICK_RUNS = [("f32", "auto", ["f32"]), ("bf16", "auto", ["f16", "bf16"])]


def model_folder(size, dtype):
    """Made once, with every peer's file that a full run wants."""
    folder = PEERS / f"llama-{size}-{dtype}"
    kinds = {kind for of, _, peers in MODEL_RUNS[size] if of == dtype for kind in peers}
    subprocess.run([sys.executable, HERE / "make_model.py", folder, "--size", size,
                    "--dtype", dtype, "--gguf", ",".join(sorted(kinds))], check=True)
    return folder


def peer_cells(gguf):
    run = subprocess.run(
        [sys.executable, HERE / "llama_peer.py", gguf, THREADS, *(["quick"] if IS_QUICK else [])],
        capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"llama_peer.py {gguf} failed:\n{run.stdout}{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def own_rows(name, ours):
    for cell, speed in ours.items():
        if f"{cell}_bytes" in ours:
            gbs = speed * ours[f"{cell}_bytes"] / 1e9
            ratio_row(f"{name} {cell}",
                      f"{speed:.1f} tokens/s, {gbs:.1f} of {ours['read_gbs']:.1f} GB/s read",
                      gbs / ours["read_gbs"], READ_GOAL)


def fastest(peers):
    """By cell: the fastest peer's speed and name."""
    return {cell: max((cells[cell], kind) for kind, cells in peers.items() if cell in cells)
            for cell in dict.fromkeys(cell for cells in peers.values() for cell in cells) if cell not in ("peer", "first_token_s")}


def peer_goal(cell, loaded_as):
    return PREFILL_GOALS[loaded_as] if cell.startswith("prefill") else PEER_GOALS.get(cell)


def peer_rows(name, loaded_as, ours, theirs):
    for cell, (speed, kind) in theirs.items():
        ratio_row(f"{name} {cell} against {kind.upper()}",
                  f"{ours[cell]:.1f} tokens/s, llama.cpp {speed:.1f}", ours[cell] / speed, peer_goal(cell, loaded_as))


def own_cells(folder, weights, attention="compute", kernels=None, activations="int16", cache="f16", cells="quick" if IS_QUICK else "full"):
    (cells,) = program("model_bench", str(folder), THREADS, cache, weights, attention, cells, f"--block-activations={activations}", kernels=kernels)
    return cells


def option_rows(name, folder, weights, loaded_as, theirs):
    """Prompts as a context worker may compute them, by the matrix unit."""
    kernels, goal = PREFILL_OPTIONS[loaded_as]
    ours = results[f"{name} options"] = own_cells(folder, weights, "bf16", kernels)
    how = "BF16 attention" + (f", {kernels}" if kernels else "")
    for cell, (speed, kind) in theirs.items():
        if cell.startswith("prefill"):
            ratio_row(f"{name} {cell}, {how}, against {kind.upper()}",
                      f"{ours[cell]:.1f} tokens/s, llama.cpp {speed:.1f}", ours[cell] / speed, goal)


def whole_model(size):
    for dtype, weights, peers in QUICK_RUNS if IS_QUICK else MODEL_RUNS[size]:
        folder = model_folder(size, dtype)
        ours = own_cells(folder, weights)
        loaded_as = dtype if weights == "auto" else weights
        name = f"{size} {loaded_as}"
        results[name] = {"ours": ours, "peers": {kind: peer_cells(folder / f"model-{kind}.gguf") for kind in peers}}
        own_rows(name, ours)
        theirs = fastest(results[name]["peers"])
        peer_rows(name, loaded_as, ours, theirs)
        if loaded_as in PREFILL_OPTIONS and HAS_BF16_UNIT:
            option_rows(name, folder, weights, loaded_as, theirs)


def smollm2_folder():
    folder = BUILD.parent / "models" / "smollm2-135m-instruct"
    subprocess.run([sys.executable, HERE.parent / "real" / "smollm2.py", folder], check=True)
    return folder


def smollm2():
    """A published model of the 135 M shape: is it as fast as random weights are?"""
    folder = smollm2_folder()
    random = results["135m bf16"]["ours"]
    ours = own_cells(folder, "auto")
    results["smollm2 bf16"] = {"ours": ours}
    own_rows("smollm2 bf16", ours)
    for cell, speed in ours.items():
        if re.fullmatch(r"(prefill|decode|batch)_\d+", cell):
            measured = f"{speed:.1f} tokens/s, random {random[cell]:.1f}"
            ratio_row(f"smollm2 bf16 {cell} against random weights", measured,
                      speed / random[cell], None)


def model():
    whole_model("135m")
    smollm2()


def with_long_context(folder):
    """The same model that says it was made for 40,000 tokens."""
    long = folder.with_name(f"{folder.name}-long")
    long.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name == "config.json":
            config = json.loads(path.read_text()) | {"max_position_embeddings": 40000}
            (long / path.name).write_text(json.dumps(config))
        elif path.suffix != ".gguf" and not (long / path.name).exists():
            (long / path.name).hardlink_to(path)
    return long


def cells_of_cache(folder, weights, cache):
    cells = own_cells(folder, weights, cache=cache)
    return cells if IS_QUICK else cells | own_cells(with_long_context(folder), weights, cache=cache, cells="long")


def kv_dtype():
    """Caches of 8 bits beside those of 16, in turns: never slower where the cache is much of what a token reads."""
    for size, dtype, weights in (("135m", "bf16", "auto"), ("1.1b", "bf16", "q4")):
        folder = model_folder(size, dtype)
        rounds = [{cache: cells_of_cache(folder, weights, cache) for cache in ("bf16", "int8", "e4m3")} for _ in range(1 if IS_QUICK else 3)]
        results[f"kv_dtype {size}"] = rounds
        for cache in ("int8", "e4m3"):
            for cell, speed in rounds[0][cache].items():
                if re.fullmatch(r"(prefill|decode|batch)_\d+", cell):
                    ours, beside = (max(some[kind][cell] for some in rounds) for kind in (cache, "bf16"))
                    ratio_row(f"{size} {cell} with K and V in {cache.upper()} against BF16", f"{ours:.1f} tokens/s, BF16 {beside:.1f}",
                              ours / beside, 1.0 if cell in ("decode_4096", "decode_32768") else None)


def model1b():
    whole_model("1.1b")


def quantized(source, kind):
    """What llama.cpp makes of a GGUF file; made once."""
    path = PEERS / f"{source.parent.name}-{source.stem}-{kind}.gguf"
    if not path.exists():
        part = path.with_suffix(".part")
        subprocess.run([sys.executable, HERE / "llama_peer.py", "quantize", source, part, kind], check=True, stdout=subprocess.DEVNULL)
        part.rename(path)
    return path


def read_once(path):
    """So that loading is not a measure of the disk."""
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def gguf_rows(name, path, goals, activations=("int16", "int8")):
    """The same file in both programs, which rounds activations to 8 bits in the other one."""
    own = {}
    for rounded_to in activations:
        read_once(path)
        own[rounded_to] = own_cells(path, "auto", activations=rounded_to)
    read_once(path)
    theirs = peer_cells(path)
    results[name] = {"ours": own, "peers": {"same file": theirs}}
    for rounded_to, ours in own.items():
        what = name if rounded_to == "int16" else f"{name}/int8"
        for cell, speed in theirs.items():
            if cell == "first_token_s":
                ratio_row(f"{what} from loading to the first token", f"{ours[cell]:.2f} s, llama.cpp {speed:.2f}",
                          speed / ours[cell], goals.get("first_token"))
            elif cell in ours:
                ratio_row(f"{what} {cell} against the same file", f"{ours[cell]:.1f} tokens/s, llama.cpp {speed:.1f}",
                          ours[cell] / speed, goals.get(cell))


def gguf():
    """A published file, what llama.cpp makes of it, and random weights."""
    found = subprocess.run([sys.executable, HERE.parent / "real" / "smollm2.py", "--gguf"], check=True, capture_output=True, text=True)
    shipped = pathlib.Path(found.stdout.splitlines()[-1])
    gguf_rows("smollm2 q4_1", shipped, GGUF_GOALS)
    if IS_QUICK:
        return
    gguf_rows("smollm2 q8_0", quantized(shipped, "q8_0"), GGUF_GOALS)
    gguf_rows("smollm2 f16", quantized(shipped, "f16"), GGUF_GOALS, ["int16"])
    random = model_folder("1.1b", "bf16")
    gguf_rows("1.1b q4_k_m", quantized(random / "model-f16.gguf", "q4_k_m"), GGUF_GOALS)
    gguf_rows("1.1b q8_0", random / "model-q8_0.gguf", GGUF_GOALS)
    experts = PEERS / "experts-8x0.3b"
    subprocess.run([sys.executable, HERE / "make_model.py", experts, "--size", "8x0.3b", "--dtype", "bf16", "--gguf", "q8_0"], check=True)
    gguf_rows("8 experts of 0.3b, two a token, q8_0", experts / "model-q8_0.gguf", {})


def slow():
    from slow import measure

    found = results["slow"] = measure(BINARY, model_folder("1.1b", "bf16"))
    is_kept = found["n_received"] == found["n_tokens"] and not found["probes_failed"]
    row(f"first token of {found['n_tokens']:.0f} tokens, 1 B, two AVX2 cores, default limits",
        f"{found['first_token_s']:.1f} s, steps {found['step_s'] * 1000:.0f} ms; {found['probes_failed']} of {found['probes']} "
        "probes failed", "kept", is_kept)


def tiers():
    from tiers import SHARES, measure

    found = results["tiers"] = measure(BINARY, model_folder("135m", "bf16"))
    for share in SHARES:
        computed_s = found["computed"][share]
        for where in ("pool", "host", "disk"):
            ratio_row(f"first token of 2,048 tokens, {share:.0%} shared, from {where}",
                      f"{found[where][share] * 1000:.0f} ms, computed {computed_s * 1000:.0f} ms",
                      computed_s / found[where][share], 2 if share == 0.9 else None)
    n_bytes, copy_s = found["restored_bytes"], found["copy_s"]
    for where in ("host", "disk"):
        added_s = found[where][SHARES[-1]] - found["pool"][SHARES[-1]]
        row(f"{n_bytes / 2**20:.0f} MiB restored from {where}, beside a copy", f"{added_s * 1000:.0f} ms more than from the pool, a copy {copy_s * 1000:.0f} ms",
            ratio=copy_s / added_s if added_s > 0 else None)


def speculate():
    from speculate import measure

    models = {"smollm2": smollm2_folder()}
    if "--quick" not in sys.argv:
        models["random 1.1b"] = model_folder("1.1b", "bf16")
    for name, folder in models.items():
        found = measure(BINARY, folder)
        results[f"speculate {name}"] = {f"{kind} {n}": speeds for (kind, n), speeds in found.items()}
        for (kind, n), (without, guessed) in found.items():
            ratio_row(f"{name}, {kind}, {n} at once, with guessed tokens", f"{guessed:.1f} tokens/s, without {without:.1f}",
                      guessed / without, 0.97)


def variant_folder(kind):
    folder = PEERS / f"smollm2-{kind}"
    if not (folder / "model.safetensors").exists():
        subprocess.run([sys.executable, HERE / "make_variant.py", folder, smollm2_folder(), kind], check=True)
    return folder


def drafts():
    """The two ends: a draft model of a quarter of the layers that is always right, and one as large as the model that never is."""
    from speculate import measure

    for name, model, draft, goal in (("always right", variant_folder("deep"), smollm2_folder(), None),
                                     ("never right", smollm2_folder(), variant_folder("random"), 0.97)):
        found = measure(BINARY, model, ("--speculate", "model", "--draft-model", str(draft)), ("chat", "free text"), (1, 4))
        results[f"drafts {name}"] = {f"{kind} {n}": speeds for (kind, n), speeds in found.items()}
        for (kind, n), (without, guessed) in found.items():
            ratio_row(f"draft model {name}, {kind}, {n} at once", f"{guessed:.1f} tokens/s, without {without:.1f}", guessed / without, goal)


def adapters():
    folder = model_folder("135m", "bf16")
    adapter = PEERS / "adapter-135m"
    subprocess.run([sys.executable, HERE / "make_adapter.py", adapter, folder], check=True)
    (found,) = results["adapters"] = program("adapters_bench", folder, adapter, THREADS)
    for kind, base, cells in (("step of 32 sequences", "decode_0_ms", ("decode_1", "decode_4", "decode_4_by_turns", "decode_32")),
                              ("prompt of 512 tokens", "prompt_0_ms", ("prompt_1",))):
        for cell in cells:
            ms, without = found[f"{cell}_ms"], found[base]
            ratio_row(f"{kind}, rank {found['rank']}, adapters: {cell.split('_', 1)[1].replace('_', ' ')}", f"{ms:.1f} ms, without {without:.1f}",
                      without / ms, None)


def windows():
    from windows import N_TOKENS, measure

    found = results["windows"] = measure(BINARY)
    for name, (ours, whole) in found.items():
        row(f"KV of {N_TOKENS:,} tokens, {name}", f"{ours / 2**20:.1f} MiB, all layers whole {whole / 2**20:.1f}", ratio=ours / whole)


def machine():
    """The processor, its caches, and the instructions that sets of kernels ask for."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    has = [flag for flag in SET_FLAGS if re.search(rf"\b{flag}\b", text)]
    caches = []
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((index / part).read_text().strip() if (index / part).exists() else "?" for part in ("level", "type", "size"))
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    return {"name": name.group(1) if name else os.uname().machine, "cpus": len(os.sched_getaffinity(0)), "caches": caches, "flags": has}


def print_rows(some):
    print(f"{'figure':58} {'measured':52} {'ratio':>6} {'goal':10}")
    for entry in some:
        ratio = "" if entry["ratio"] is None else f"{entry['ratio']:.2f}"
        met = {None: "", True: "met", False: "MISSED"}[entry["met"]]
        print(f"{entry['what']:58} {entry['measured']:52} {ratio:>6} {entry['goal']:10} {met}")


results["machine"] = here = machine()
print(f"{here['name']}, {here['cpus']} CPUs, {', '.join(here['caches'])}: {' '.join(here['flags'])}")
for section in SECTIONS:
    print(f"\n== {section}", flush=True)
    n_before = len(rows)
    globals()[section]()
    print_rows(rows[n_before:])
    JSON_FILE.write_text(json.dumps({"rows": rows, "results": results}, indent=1))

judged = [entry["met"] for entry in rows if entry["met"] is not None]
print(f"\n{sum(judged)} of {len(judged)} goals met; JSON: {JSON_FILE}")
