#include "kernels/reference/latent.h"

#include "kernels/latent_parts.h"

#include <math.h>

static size_t workspace_bytes(const struct latent_config *config, uint32_t n_threads)
{
    (void)config, (void)n_threads;
    return 0;
}

/* What an 8-bit element counts. */
static float cache_unit(const struct latent *latent, const struct latent_io *io)
{
    return dtype_is_8bit(latent->config.cache) ? io->cache_scale : 1;
}

static void write_rows(const struct latent *latent, const struct latent_step *step,
                       const struct latent_io *io)
{
    const float *row = io->rows;
    for (uint32_t s = 0; s < step->n_sequences; s++) {
        const struct latent_sequence *sequence = &step->sequences[s];
        for (uint32_t t = sequence->kv_len - sequence->query_len; t < sequence->kv_len; t++) {
            char *slot = latent_address(&step->kv, io->layer_index, sequence->block_ids, t);
            for (uint32_t i = 0; i < latent_width(&latent->config); i++)
                dtype_store(latent->config.cache, slot, i,
                            (float)((double)row[i] / (double)cache_unit(latent, io)));
            row += io->rows_stride;
        }
    }
}

/* One call, for a head of one token. */
struct head {
    const struct latent *latent;
    const struct latent_step *step;
    const struct latent_io *io;
    const struct latent_sequence *sequence;
    const float *q;
    uint32_t n_keys;
};

static double element(const struct head *head, uint32_t key, uint32_t i)
{
    const char *row = latent_address(&head->step->kv, head->io->layer_index,
                                     head->sequence->block_ids, key);
    return (double)dtype_load(head->latent->config.cache, row, i) *
           (double)cache_unit(head->latent, head->io);
}

static double score(const struct head *head, uint32_t key)
{
    double sum = 0;
    for (uint32_t i = 0; i < latent_width(&head->latent->config); i++)
        sum += (double)head->q[i] * element(head, key, i);
    return sum * (double)head->latent->config.scale;
}

/* As a running softmax: a larger score rescales what came before. */
static void head_attend(const struct head *head, float *output)
{
    const uint32_t n = head->latent->config.latent_dim;
    double sums[LATENT_DIM_MAX] = {0};
    double largest = -INFINITY, total = 0;
    for (uint32_t key = 0; key < head->n_keys; key++) {
        double s = score(head, key);
        double next = s > largest || isnan(s) ? s : largest;
        double keep = exp(largest - next), weight = exp(s - next);
        total = total * keep + weight;
        for (uint32_t i = 0; i < n; i++)
            sums[i] = sums[i] * keep + weight * element(head, key, i);
        largest = next;
    }
    for (uint32_t i = 0; i < n; i++)
        output[i] = (float)(sums[i] / total);
}

static void attend(const struct latent *latent, const struct latent_step *step,
                   const struct latent_io *io)
{
    const struct latent_config *config = &latent->config;
    uint64_t row = 0;
    for (uint32_t s = 0; s < step->n_sequences; s++) {
        const struct latent_sequence *sequence = &step->sequences[s];
        for (uint32_t t = 0; t < sequence->query_len; t++, row++)
            for (uint32_t h = 0; h < config->n_heads; h++) {
                struct head head = {
                    .latent = latent,
                    .step = step,
                    .io = io,
                    .sequence = sequence,
                    .q = io->q + row * io->q_stride + (size_t)h * latent_width(config),
                    .n_keys = sequence->kv_len - sequence->query_len + t + 1,
                };
                head_attend(&head,
                            io->output + row * io->output_stride + (size_t)h * config->latent_dim);
            }
    }
}

const struct latent_backend reference_latent = {
    .workspace_bytes = workspace_bytes,
    .write = write_rows,
    .attend = attend,
};
