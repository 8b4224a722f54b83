"""torch.nn.functional.scaled_dot_product_attention with every mask it takes."""
import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention

HEADS, DIM = 2, 8
BATCH, LEN, QUERIES = 2, 24, 8


def normal(random, *shape):
    return torch.from_numpy(random.standard_normal(shape, dtype=np.float32))


def rows(x):
    """[batch, heads, tokens, dim] -> packed rows."""
    return x.transpose(1, 2)


def case(random, n_queries=LEN, n_keys=LEN, heads=HEADS, kv_heads=HEADS, mask=None, **options):
    """mask: what makes it from the random generator, or a mask of torch's own."""
    q = normal(random, BATCH, heads, n_queries, DIM) * 1.5
    k, v = normal(random, BATCH, kv_heads, n_keys, DIM), normal(random, BATCH, kv_heads, n_keys, DIM)
    arrays = {"lens": np.full(BATCH, n_keys), "query_lens": np.full(BATCH, n_queries), "q": rows(q), "k": rows(k), "v": rows(v)}
    if callable(mask):
        mask = mask(random)
        arrays["table" if mask.dim() == 3 else "mask"] = mask
    with sdpa_kernel(SDPBackend.MATH):
        output = scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=kv_heads != heads, **options)
    arrays["output"] = rows(output)
    assert torch.isfinite(output).all()
    return arrays


def with_lse(random, is_causal):
    """The kernel behind it that also returns the log-sum-exp."""
    arrays = case(random, is_causal=is_causal)
    q, k, v = (arrays[name].transpose(1, 2) for name in "qkv")
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal)
    assert torch.allclose(rows(output), arrays["output"], atol=1e-5)
    return {**arrays, "lse": lse.transpose(1, 2) if lse.shape[1] == HEADS else lse}


def boolean(*shape):
    """A third is hidden, never the first key."""
    def make(random):
        mask = torch.from_numpy(random.random(shape) < 0.65)
        mask[..., 0] = True
        return mask
    return make


def additive(*shape):
    def make(random):
        return normal(random, *shape).masked_fill(~boolean(*shape)(random), -torch.inf)
    return make


def empty_rows(random):
    """Torch gives zeros for them, as the operator does."""
    mask = boolean(LEN, LEN)(random)
    mask[3] = mask[LEN - 1] = False
    return mask


CASES = {
    "sdpa": lambda random: with_lse(random, False),
    "sdpa_causal": lambda random: with_lse(random, True),
    "sdpa_scale": lambda random: case(random, is_causal=True, scale=0.8),
    "sdpa_gqa": lambda random: case(random, heads=4, kv_heads=2, is_causal=True),
    "sdpa_mqa": lambda random: case(random, heads=4, kv_heads=1, is_causal=True),
    "sdpa_cross": lambda random: case(random, n_queries=5),
    "sdpa_upper_left": lambda random: case(random, n_queries=QUERIES, is_causal=True),
    "sdpa_lower_right": lambda random: case(random, n_queries=QUERIES, mask=causal_lower_right(QUERIES, LEN)),
    "sdpa_bool": lambda random: case(random, mask=boolean(LEN, LEN)),
    "sdpa_bool_empty_rows": lambda random: case(random, mask=empty_rows),
    "sdpa_bool_causal": lambda random: case(random, mask=lambda r: boolean(BATCH, 1, LEN, LEN)(r).tril()),
    "sdpa_bool_batch": lambda random: case(random, mask=boolean(BATCH, 1, LEN, LEN)),
    "sdpa_bool_keys": lambda random: case(random, mask=boolean(BATCH, 1, 1, LEN)),
    "sdpa_float": lambda random: case(random, mask=additive(LEN, LEN)),
    "sdpa_float_batch": lambda random: case(random, mask=additive(BATCH, 1, LEN, LEN)),
    "sdpa_float_keys": lambda random: case(random, mask=additive(BATCH, 1, 1, LEN)),
    "sdpa_float_cross": lambda random: case(random, n_queries=5, mask=additive(BATCH, 1, 5, LEN)),
    "sdpa_float_heads": lambda random: case(random, mask=lambda r: normal(r, HEADS, LEN, LEN)),
}
