/*
 * api_answer - one answer of the API server as it arrives: its HTTP, and its body within a bound.
 *
 *     bytes --push--> http_reply --> [ body, at most bytes_max ] --> text, when it is done
 *                                                              \--> next_line, of a watch
 *
 * A body that is too large is refused, whatever length it announced; of a watch only the bytes after
 * the last taken line count. Memory grows with the received bytes, not with the announced length.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "discovery/k8s/http_reply.h"

#include <stdbool.h>
#include <stddef.h>

struct api_answer {
    struct http_reply reply;
    char *text; /* owned; [taken, n) is not taken yet */
    size_t n, taken, room, bytes_max;
    size_t searched; /* [taken, searched) has no line end */
};

void api_answer_init(struct api_answer *answer, size_t bytes_max);
void api_answer_finish(struct api_answer *answer);

/* As http_reply_push; UNSUPPORTED: more than bytes_max. NO_MEMORY. */
MUST_CHECK enum status api_answer_push(struct api_answer *answer, const char *bytes, size_t n,
                                       struct error *error);
bool api_answer_is_done(const struct api_answer *answer);

/* The next whole line, without its end; empty lines are skipped. Borrowed until the next push. False: none yet. */
bool api_answer_next_line(struct api_answer *answer, const char **line_out, size_t *bytes_out);
