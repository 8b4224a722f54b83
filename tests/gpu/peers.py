"""peers - the same work by PyTorch (cuDNN, flash attention, cuBLAS) and FlashInfer, in microseconds of one run.

Every function gets a figure of gpu_bench, which names the shape, and returns {peer: microseconds}; a peer that is not
there or refuses the shape is left out. Runs are captured into a graph, so that none waits for Python.
"""

import itertools
import statistics
import time

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as sdpa
    HAS_TORCH = torch.cuda.is_available()
except Exception:  # not installed, or not for this machine
    HAS_TORCH = False
try:
    import flashinfer
except Exception:
    flashinfer = None

INNER, ROUNDS = 8, 10
WARM_S = 0.5  # a GPU that was idle takes so long to come to its clocks
warmed = False


def describe():
    if not HAS_TORCH:
        return "peers: PyTorch with a GPU cannot be imported"
    also = f", FlashInfer {flashinfer.__version__}" if flashinfer else "; no FlashInfer"
    return f"peers: PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}{also}"


def timed_us(run):
    global warmed
    ends = time.monotonic() + (0 if warmed else WARM_S)
    for n in itertools.count():
        if n >= 3 and time.monotonic() >= ends:
            break
        run(0)
        torch.cuda.synchronize()
    warmed = True
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(INNER):
            run(i)
    spans = []
    for _ in range(ROUNDS):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        graph.replay()
        after.record()
        after.synchronize()
        spans.append(before.elapsed_time(after) * 1e3 / INNER)
    return statistics.median(spans)


def of_backends(run):
    times = {}
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        def chosen(i, backend=backend):
            with sdpa_kernel(backend):
                return run(i)
        try:
            times[name] = timed_us(chosen)
        except RuntimeError:
            continue
    return times


def copy_gbs():
    if not HAS_TORCH:
        return None
    source = torch.empty(1 << 32, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return 2 * source.numel() / timed_us(lambda i: target.copy_(source)) / 1e3


def matmul_tflops(n=8192):
    """Every use of the device's tensor cores is a share of it."""
    if not HAS_TORCH:
        return None
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * n ** 3 / timed_us(lambda i: torch.mm(a, b)) / 1e6


def prefill_us(shape):
    if not HAS_TORCH:
        return {}
    n, d, heads, kv_heads = shape["tokens"], shape["head_dim"], shape["heads"], shape["kv_heads"]
    q = torch.randn(1, heads, n, d, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.randn(1, kv_heads, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    wide = [x.repeat_interleave(heads // kv_heads, dim=1) for x in (k, v)]
    return of_backends(lambda i: sdpa(q, *wide, is_causal=True))


def decode_us(shape):
    """Grouped heads as rows of one head, so that each key is read once."""
    if not HAS_TORCH:
        return {}
    batch, n, d, kv_heads = shape["batch"], shape["tokens"], shape["head_dim"], shape["kv_heads"]
    group, n_bytes = shape["heads"] // kv_heads, 4 * batch * n * d * kv_heads
    sets = max(1, min(8, (256 << 20) // n_bytes + 1))
    kv = [[torch.randn(batch, kv_heads, n, d, device="cuda", dtype=torch.bfloat16) for _ in range(2)] for _ in range(sets)]
    q = torch.randn(batch, kv_heads, group, d, device="cuda", dtype=torch.bfloat16)
    times = of_backends(lambda i: sdpa(q, *kv[i % sets]))
    del kv
    times.update(flashinfer_decode_us(shape))
    return times


def flashinfer_decode_us(shape):
    if not flashinfer:
        return {}
    batch, n, d, kv_heads, page = shape["batch"], shape["tokens"], shape["head_dim"], shape["kv_heads"], 64
    pages = batch * n // page
    cache = torch.randn(pages, 2, kv_heads, page, d, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(batch, shape["heads"], d, device="cuda", dtype=torch.bfloat16)
    workspace = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=True)
    indptr = torch.arange(batch + 1, dtype=torch.int32, device="cuda") * (n // page)
    wrapper.plan(indptr, torch.randperm(pages, dtype=torch.int32, device="cuda"),
                 torch.full((batch,), page, dtype=torch.int32, device="cuda"), shape["heads"], kv_heads, d, page,
                 q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16)
    return {"flashinfer": timed_us(lambda i: wrapper.run(q, cache))}


def product_us(shape):
    if not HAS_TORCH:
        return {}
    n_bytes = 2 * shape["n_in"] * shape["n_out"]
    sets = max(1, min(8, (256 << 20) // n_bytes + 1))
    x = torch.randn(shape["rows"], shape["n_in"], device="cuda", dtype=torch.bfloat16)
    weights = [torch.randn(shape["n_out"], shape["n_in"], device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    return {"cublas": timed_us(lambda i: torch.nn.functional.linear(x, weights[i % sets]))}
