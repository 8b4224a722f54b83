/*
 * reply_texts - the text of single tokens, asked of the router that made them (Detokenize, one call for each id).
 *
 * A token has the blank before it, also where decoders drop that of a first token. A part of a character has U+FFFD.
 *
 * Bounds: REPLY_TEXTS_MAX different ids; ids after these have no text.
 * Thread: main.
 */
#pragma once

#include "cli/client/reply.h"
#include "rpc/client/client.h"

#define REPLY_TEXTS_MAX 16384u

struct reply_text {
    uint32_t id;
    uint32_t bytes;
    char *text; /* [bytes] and a NUL; NULL: not known */
};

/* All zeros: empty. */
struct reply_texts {
    struct reply_text *rows; /* [n], by id */
    uint32_t n;
};

/* Asks for all ids of the reply. A failure of a call ends the asking: what is known stays, and *error says why. NO_MEMORY. */
MUST_CHECK enum status reply_texts_ask(struct rpc_channel *channel, const char *authorization,
                                       uint64_t deadline_ns, const struct reply *reply,
                                       struct reply_texts *texts, struct rpc_error *error);
/* NULL: not known. */
const struct reply_text *reply_texts_find(const struct reply_texts *texts, uint32_t id);
void reply_texts_finish(struct reply_texts *texts);
