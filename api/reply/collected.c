#include "api/reply/collected.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_ROOM_FIRST   1024u /* bytes; doubled when full, as the tokens' */
#define TOKENS_ROOM_FIRST 64u

enum status collected_add_text(struct collected *collected, const char *text, size_t text_bytes,
                               size_t text_bytes_max)
{
    size_t wanted = collected->text_bytes + text_bytes + 1;
    if (wanted > text_bytes_max)
        return STATUS_REPLY_TOO_LONG;
    if (wanted > collected->text_room) {
        size_t room = collected->text_room ? collected->text_room : TEXT_ROOM_FIRST;
        while (room < wanted)
            room *= 2;
        char *larger = realloc(collected->text, room);
        if (!larger)
            return STATUS_NO_MEMORY;
        collected->text = larger;
        collected->text_room = room;
    }
    assert(collected->text_bytes + text_bytes < collected->text_room);
    memcpy(collected->text + collected->text_bytes, text, text_bytes);
    collected->text_bytes += text_bytes;
    collected->text[collected->text_bytes] = '\0';
    return STATUS_OK;
}

/* For n more tokens. */
static enum status make_room(struct collected *collected, uint32_t n, bool has_logprobs)
{
    uint32_t room = collected->room ? collected->room : TOKENS_ROOM_FIRST;
    while (room - collected->n < n)
        room *= 2;
    if (room != collected->room) {
        uint32_t *ids = realloc(collected->token_ids, room * sizeof *ids);
        if (!ids)
            return STATUS_NO_MEMORY;
        collected->token_ids = ids;
    }
    if (has_logprobs && (room != collected->room || !collected->logprobs)) {
        struct token_logprobs *logprobs = realloc(collected->logprobs, room * sizeof *logprobs);
        if (!logprobs)
            return STATUS_NO_MEMORY;
        if (!collected->logprobs) /* tokens without any came before */
            memset(logprobs, 0, collected->n * sizeof *logprobs);
        collected->logprobs = logprobs;
    }
    collected->room = room;
    return STATUS_OK;
}

enum status collected_add(struct collected *collected, const struct reply_piece *piece,
                          size_t text_bytes_max)
{
    assert(piece->n > 0);
    bool has_logprobs = piece->logprobs || collected->logprobs;
    TRY(make_room(collected, piece->n, has_logprobs));
    memcpy(collected->token_ids + collected->n, piece->token_ids,
           piece->n * sizeof *piece->token_ids);
    for (uint32_t i = 0; has_logprobs && i < piece->n; i++)
        collected->logprobs[collected->n + i] = piece->logprobs ? piece->logprobs[i]
                                                                : (struct token_logprobs){0};
    collected->n += piece->n;
    return collected_add_text(collected, piece->text, piece->text_bytes, text_bytes_max);
}

void collected_finish(struct collected *collected)
{
    free(collected->token_ids);
    free(collected->logprobs);
    free(collected->text);
    *collected = (struct collected){0};
}
