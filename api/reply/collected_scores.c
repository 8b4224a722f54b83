#include "api/reply/collected_scores.h"

#include <assert.h>
#include <stdlib.h>

#define TOKENS_ROOM_FIRST 64u
#define NO_TOKEN          UINT32_MAX
/* Of an id and a number, in a message or as JSON. */
#define REPLY_BYTES 24u

size_t collected_scores_bytes(const struct collected_scores *collected)
{
    return (size_t)collected->n * (1 + collected->n_top) * REPLY_BYTES;
}

static enum status make_room(struct collected_scores *collected, uint32_t n)
{
    const size_t stride = 1 + (size_t)collected->n_top;
    uint32_t room = collected->room ? collected->room : TOKENS_ROOM_FIRST;
    while (room - collected->n < n)
        room *= 2;
    if (room == collected->room)
        return STATUS_OK;
    struct scored_token *larger = realloc(collected->tokens, room * stride * sizeof *larger);
    if (!larger)
        return STATUS_NO_MEMORY;
    collected->tokens = larger;
    collected->room = room;
    return STATUS_OK;
}

static void put(struct scored_token *to, uint32_t n_top, uint32_t id,
                const struct token_logprobs *from)
{
    assert(from->n_top <= n_top && "the router has checked it");
    to[0] = (struct scored_token){id, from->logprob};
    for (uint32_t i = 0; i < n_top; i++)
        to[1 + i] = i < from->n_top ? (struct scored_token){from->top_ids[i], from->top_logprobs[i]}
                                    : (struct scored_token){NO_TOKEN, 0};
}

enum status collected_scores_add(struct collected_scores *collected, const uint32_t *token_ids,
                                 const struct prompt_scores *scores, size_t bytes_max)
{
    const size_t stride = 1 + (size_t)collected->n_top;
    assert(collected->n_top <= LOGPROBS_MAX && scores->first == collected->first + collected->n &&
           "in order");
    if ((collected->n + (size_t)scores->n) * stride * REPLY_BYTES > bytes_max)
        return STATUS_REPLY_TOO_LONG;
    TRY(make_room(collected, scores->n));
    for (uint32_t i = 0; i < scores->n; i++)
        put(collected->tokens + (collected->n + i) * stride, collected->n_top, token_ids[i],
            &scores->logprobs[i]);
    collected->n += scores->n;
    return STATUS_OK;
}

bool collected_scores_are_of(const struct collected_scores *collected, uint32_t n_prompt)
{
    return collected->first == 0 && collected->n == n_prompt;
}

uint32_t collected_scores_get(const struct collected_scores *collected, uint32_t i,
                              struct token_logprobs *out)
{
    const struct scored_token *from = collected->tokens + (size_t)i * (1 + collected->n_top);
    assert(i < collected->n);
    *out = (struct token_logprobs){.logprob = from[0].logprob};
    while (out->n_top < collected->n_top && from[1 + out->n_top].id != NO_TOKEN) {
        out->top_ids[out->n_top] = from[1 + out->n_top].id;
        out->top_logprobs[out->n_top] = from[1 + out->n_top].logprob;
        out->n_top++;
    }
    return from[0].id;
}

void collected_scores_clear(struct collected_scores *collected)
{
    collected->first += collected->n;
    collected->n = 0;
}

void collected_scores_finish(struct collected_scores *collected)
{
    free(collected->tokens);
    *collected = (struct collected_scores){0};
}
