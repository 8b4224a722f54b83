#include "device/device_fetch.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/sampling_parameters.h"
#include "model/forward/forward_parts.h"
#include "model/kernel_choice.h"

#include <assert.h>

bool forward_finds_on(const struct device *device)
{
    return kernel_choice_is_own(device);
}

bool forward_finds(const struct forward *forward)
{
    return forward_finds_on(forward->options.device);
}

/* ---- wishes ---- */

size_t forward_wishes_bytes(uint32_t n)
{
    return n * sizeof(struct sampling_row);
}

/* The ids of a row's penalties differ, so the vocabulary is a bound, too. */
size_t forward_penalties_bytes(const struct forward *forward, uint32_t n)
{
    const uint32_t vocabulary = forward->config->vocabulary;
    const size_t n_max = vocabulary < FORWARD_PENALTIES_MAX ? vocabulary : FORWARD_PENALTIES_MAX;
    return n * n_max * sizeof(struct sampling_penalty);
}

static const struct forward_wish *wish_of(const struct forward_sequence *sequence)
{
    return sequence->wants_logits ? sequence->wish : NULL;
}

size_t forward_sent_penalties_bytes(const struct forward_sequence *sequences, uint32_t n_sequences)
{
    size_t n = 0;
    for (uint32_t i = 0; i < n_sequences; i++) {
        const struct forward_wish *wish = wish_of(&sequences[i]);
        assert(!wish || wish->n_penalties <= FORWARD_PENALTIES_MAX);
        n += wish ? wish->n_penalties : 0;
    }
    return n * sizeof(struct sampling_penalty);
}

static struct sampling_row row_of(const struct forward_wish *wish, uint32_t first_penalty)
{
    if (!wish)
        return (struct sampling_row){.n_best = 0};
    return (struct sampling_row){.first_penalty = first_penalty,
                                 .n_penalties = wish->n_penalties,
                                 .temperature = wish->temperature,
                                 .n_top = wish->n_top,
                                 .n_best = SAMPLING_BEST};
}

void forward_lay_out_wishes(const struct step_layout *layout,
                            const struct forward_sequence *sequences, uint32_t n_sequences,
                            uint8_t *view)
{
    struct sampling_row *rows = (struct sampling_row *)(void *)(view + layout->wishes_at);
    struct sampling_penalty *list = (struct sampling_penalty *)(void *)(view + layout->bytes);
    uint32_t n_rows = 0, n_listed = 0;
    for (uint32_t i = 0; i < n_sequences; i++) {
        const struct forward_wish *wish = wish_of(&sequences[i]);
        if (!sequences[i].wants_logits)
            continue;
        rows[n_rows++] = row_of(wish, n_listed);
        for (uint32_t p = 0; wish && p < wish->n_penalties; p++)
            list[n_listed++] = wish->penalties[p];
    }
    while (n_rows < layout->metadata->n_static)
        rows[n_rows++] = row_of(NULL, 0);
    assert(n_rows <= layout->metadata->limits.n_sequences_max);
}

/* ---- on the device ---- */

void forward_enqueue_find(const struct forward *forward, const struct step_layout *layout,
                          const uint8_t *sent, uint32_t n_rows)
{
    const uint32_t vocabulary = forward->config->vocabulary;
    const struct candidates_parameters parameters = {
        .logits = forward->logits.data,
        .rows = (const struct sampling_row *)(const void *)(sent + layout->wishes_at),
        .penalties = (const struct sampling_penalty *)(const void *)(sent + layout->bytes),
        .scratch = forward->penalised.data,
        .results = forward->found.data,
        .logits_stride = vocabulary,
        .vocabulary = vocabulary,
    };
    assert(forward->found.data && n_rows <= forward->options.sequences_max);
    cuda_candidates(&parameters, n_rows);
}

enum status forward_fetch(struct forward *forward, uint32_t row, float *logits_out)
{
    const size_t vocabulary = forward->config->vocabulary;
    assert(row < forward->n_found && "of the last step");
    device_bind(forward->options.device);
    return device_fetch(forward->options.device,
                        (const float *)forward->logits.data + row * vocabulary,
                        vocabulary * sizeof *logits_out, logits_out);
}
