/*
 * api_answer - one answer of the API server as it arrives: its HTTP, and its body within a bound.
 *
 *     bytes --push--> http_reply --> [ body, at most bytes_max ] --> text, when it is done
 *                                                              \--> next_line, of a watch
 *
 * A body that fits no longer is refused, whatever length it announced; of a watch only what is behind
 * the last line that was taken counts. Memory grows with what has arrived, not with what is promised.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "router/discovery/k8s/http_reply.h"

#include <stdbool.h>
#include <stddef.h>

struct api_answer {
    struct http_reply reply;
    char *text; /* owned; [taken, n) is what is not taken yet */
    size_t n, taken, room, bytes_max;
    size_t searched; /* [taken, searched) has no line end */
};

void api_answer_init(struct api_answer *answer, size_t bytes_max);
void api_answer_finish(struct api_answer *answer);

/* As http_reply_push; UNSUPPORTED: more than bytes_max. NO_MEMORY. */
MUST_CHECK enum status api_answer_push(struct api_answer *answer, const char *bytes, size_t n,
                                       struct error *error);
bool api_answer_is_done(const struct api_answer *answer);

/* The next whole line, without its end; lines without a byte are passed over. Borrowed until the next push.
 * False: there is none yet. */
bool api_answer_next_line(struct api_answer *answer, const char **line_out, size_t *bytes_out);
