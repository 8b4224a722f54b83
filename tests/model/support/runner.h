/* runner - a model with a pool and a forward pass, and sequences that feed it; asserts on failure. */
#pragma once

#include "model/forward/forward.h"
#include "model/weights/kv_scales.h"

#define GOLDEN_MODELS     KVFERRY_SOURCE_DIR "/tests/golden/models"
#define RUNNER_KV_LARGEST 12.0 /* K and V of the tiny models are smaller */
#define DEMO_MODEL        KVFERRY_SOURCE_DIR "/model/demo"

struct runner_options {
    uint32_t block_tokens; /* 0: 16 */
    enum cache_dtype cache_dtype;
    enum context_math context_math;
    enum block_activations block_activations;
    struct attention_switches attention;
    bool
        in_groups; /* layers by their windows: blocks that a window has passed are given back, and hold NaN then */
    struct sink_window sinks;
    enum weight_format weights;
    const char *cpu_kernels, *attention_kernels; /* NULL: the machine's choice */
    uint32_t n_threads;                          /* 0: no pool, everything on the caller */
    uint32_t tokens_max, sequences_max,
        n_blocks;          /* 0: 2048, 8, what one sequence of tokens_max needs */
    struct device *device; /* the caller's; NULL: the host, and the runner's */
    uint32_t adapter_rank_max;
    uint32_t encoder_tokens_max; /* 0: 128, if the model has an encoder */
    bool is_loaded;              /* the device has its kernels already: another runner is on it */
};

struct runner {
    struct runner_options options;
    struct device *device;
    struct model *model;
    struct thread_pool *threads;
    struct kv_scales kv_scales; /* of a cache of 8 bits, where the model has none */
    struct device_memory pool_memory;
    struct block_pool *pool;
    struct forward *forward;
    struct cache_groups groups;
    uint32_t vocabulary;
    const struct adapter *adapter; /* of sequences that begin; NULL: none */
};

/* The pool's bytes start as NaN of every dtype. */
void runner_open(struct runner *runner, const char *folder, struct runner_options options);
void runner_close(struct runner *runner);

struct runner_sequence {
    const struct runner *runner;
    block_id *blocks; /* [n_groups][n_blocks] */
    uint32_t n_blocks;
    block_id *state; /* [groups.n_state] */
    uint32_t n_past;
    uint32_t prompt_len;
    const struct adapter *adapter;
    block_id *cross_blocks; /* NULL: runner_encode has not been called */
    uint32_t n_cross_blocks, n_cross_tokens;
};

void runner_begin(struct runner *runner, struct runner_sequence *sequence, uint32_t n_tokens);
/* Bytes of a sequence's recurrent state, in an order that does not depend on blocks; runner_state_bytes: how many. */
size_t runner_state_bytes(const struct runner *runner);
void runner_read_state(const struct runner_sequence *sequence, uint8_t *bytes_out);
/* A second sequence that knows what the first does, in a copy of its blocks and state. */
void runner_copy(struct runner *runner, const struct runner_sequence *from,
                 struct runner_sequence *sequence);
void runner_end(struct runner *runner, struct runner_sequence *sequence);
/* A model with an encoder: the text of a sequence that has begun. The first gives it blocks, which the caller may encode in company;
 * the second encodes it alone. */
struct forward_text runner_text(struct runner *runner, struct runner_sequence *sequence,
                                const uint32_t *token_ids, uint32_t n);
void runner_encode(struct runner *runner, struct runner_sequence *sequence,
                   const uint32_t *token_ids, uint32_t n);
/* The next n tokens of one sequence, as it stands in a batch; moves n_past on. A context's prompt_len is
 * the caller's to set. */
struct forward_sequence runner_next(struct runner_sequence *sequence, const uint32_t *token_ids,
                                    uint32_t n, bool wants_logits);
/* A prompt alone, in chunks of chunk_tokens (0: one); logits_out [vocabulary] of the last. */
void runner_prefill(struct runner *runner, struct runner_sequence *sequence,
                    const uint32_t *token_ids, uint32_t n, uint32_t chunk_tokens,
                    float *logits_out);
/* The largest error of logits of ids: of the last one after the whole prompt at once, and of each one token by token.
 * expected: [n][vocabulary]. */
double runner_largest_error(struct runner *runner, const uint32_t *ids, uint32_t n,
                            const float *expected);
/* One token alone in the generation phase. */
void runner_decode(struct runner *runner, struct runner_sequence *sequence, uint32_t token_id,
                   float *logits_out);
