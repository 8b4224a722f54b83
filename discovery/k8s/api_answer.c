#include "discovery/k8s/api_answer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MIN 4096u

void api_answer_init(struct api_answer *answer, size_t bytes_max)
{
    http_reply_init(&answer->reply);
    answer->text = NULL;
    answer->n = answer->taken = answer->room = answer->searched = 0;
    answer->bytes_max = bytes_max;
}

void api_answer_finish(struct api_answer *answer)
{
    free(answer->text);
    answer->text = NULL;
}

/* Moves what is not taken to the front. */
static void drop_taken(struct api_answer *answer)
{
    if (answer->taken == 0)
        return;
    assert(answer->taken <= answer->searched && answer->searched <= answer->n);
    answer->n -= answer->taken;
    memmove(answer->text, answer->text + answer->taken, answer->n);
    answer->searched -= answer->taken;
    answer->taken = 0;
}

static enum status make_room(struct api_answer *answer, size_t n, struct error *error)
{
    assert(answer->n <= answer->room && answer->room <= answer->bytes_max);
    if (n > answer->bytes_max - answer->n)
        return error_set(error, STATUS_UNSUPPORTED, "the answer has more than %zu bytes at once",
                         answer->bytes_max);
    if (n <= answer->room - answer->n)
        return STATUS_OK;
    size_t room = answer->room ? answer->room : ROOM_MIN;
    while (room < answer->n + n)
        room *= 2;
    if (room > answer->bytes_max)
        room = answer->bytes_max;
    char *larger = realloc(answer->text, room);
    if (!larger)
        return error_set(error, STATUS_NO_MEMORY, "no memory for an answer of %zu bytes", room);
    answer->text = larger;
    answer->room = room;
    return STATUS_OK;
}

static enum status add_body(void *arg, const char *bytes, size_t n, struct error *error)
{
    struct api_answer *answer = arg;
    TRY(make_room(answer, n, error));
    assert(answer->room - answer->n >= n);
    memcpy(answer->text + answer->n, bytes, n);
    answer->n += n;
    return STATUS_OK;
}

enum status api_answer_push(struct api_answer *answer, const char *bytes, size_t n,
                            struct error *error)
{
    drop_taken(answer);
    return http_reply_push(&answer->reply, bytes, n, add_body, answer, error);
}

bool api_answer_is_done(const struct api_answer *answer)
{
    return answer->reply.state == HTTP_REPLY_DONE;
}

bool api_answer_next_line(struct api_answer *answer, const char **line_out, size_t *bytes_out)
{
    while (answer->searched < answer->n) {
        const char *line = answer->text + answer->taken;
        const char *end = memchr(answer->text + answer->searched, '\n',
                                 answer->n - answer->searched);
        if (!end) {
            answer->searched = answer->n;
            return false;
        }
        size_t bytes = (size_t)(end - line);
        answer->taken += bytes + 1;
        answer->searched = answer->taken;
        if (bytes == 0)
            continue;
        *line_out = line;
        *bytes_out = bytes;
        return true;
    }
    return false;
}
