"""ALiBi's slopes from BLOOM and T5's buckets from T5, by Transformers."""
import numpy as np
import torch
from transformers.models.bloom import modeling_bloom
from transformers.models.t5 import modeling_t5

HEADS_MAX = 40
DISTANCE_MAX = 300
# n_buckets, distance_max, is_bidirectional: tests/kernels/golden_test.c has the same list.
BUCKETS = [(32, 128, True), (32, 128, False), (16, 32, True), (16, 32, False), (8, 100, False), (64, 512, True)]


def slopes(_):
    return {"slopes": torch.cat([modeling_bloom._get_alibi_slopes(n, torch.device("cpu"))
                                 for n in range(1, HEADS_MAX + 1)])}


def buckets(_):
    distances = torch.arange(-DISTANCE_MAX, DISTANCE_MAX + 1)
    rows = [modeling_t5.T5Attention._relative_position_bucket(distances, bidirectional=both, num_buckets=n,
                                                              max_distance=far) for n, far, both in BUCKETS]
    return {"buckets_of": np.stack([row.numpy() for row in rows])}


CASES = {"alibi_slopes": slopes, "t5_buckets": buckets}
