#include "cli/client/reply_texts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int by_id(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static int row_by_id(const void *id, const void *row)
{
    uint32_t a = *(const uint32_t *)id, b = ((const struct reply_text *)row)->id;
    return (a > b) - (a < b);
}

/* Behind the n that are there; returns how many there are then. */
static size_t put(const struct reply_choice *choice, uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < choice->n_tokens; i++)
        ids[n++] = choice->tokens[i].id;
    for (size_t i = 0; i < choice->n_tops; i++)
        ids[n++] = choice->tops[i].id;
    return n;
}

/* All ids, repeated ones, too. NULL: no memory. */
static uint32_t *gather(const struct reply *reply, size_t *n_out)
{
    size_t n = reply->prompt.n_tokens + reply->prompt.n_tops;
    for (uint32_t c = 0; c < reply->n_choices; c++)
        n += reply->choices[c].n_tokens + reply->choices[c].n_tops;
    uint32_t *ids = malloc((n + 1) * sizeof *ids);
    *n_out = n;
    if (!ids)
        return NULL;
    n = put(&reply->prompt, ids, 0);
    for (uint32_t c = 0; c < reply->n_choices; c++)
        n = put(&reply->choices[c], ids, n);
    assert(n == *n_out);
    return ids;
}

static enum status make_rows(const struct reply *reply, struct reply_texts *texts)
{
    size_t n;
    assert(!texts->rows && texts->n == 0); /* a reply's texts are asked for once */
    uint32_t *ids = gather(reply, &n);
    texts->rows = calloc(REPLY_TEXTS_MAX, sizeof *texts->rows);
    if (ids && texts->rows) {
        qsort(ids, n, sizeof *ids, by_id);
        for (size_t i = 0; i < n && texts->n < REPLY_TEXTS_MAX; i++)
            if (i == 0 || ids[i] != ids[i - 1])
                texts->rows[texts->n++].id = ids[i];
    }
    bool has_both = ids && texts->rows;
    free(ids);
    return has_both ? STATUS_OK : STATUS_NO_MEMORY;
}

/* On the client's queue thread, while main waits. */
static void on_text(void *arg, const ProtobufCMessage *message)
{
    struct reply_text *row = arg;
    const ProtobufCBinaryData *text = &((const Kvferry__V1__DetokenizeResponse *)message)->text;
    if (row->text || text->len > UINT32_MAX)
        return;
    row->text = malloc(text->len + 1);
    if (!row->text)
        return;
    if (text->len > 0)
        memcpy(row->text, text->data, text->len);
    row->text[text->len] = '\0';
    row->bytes = (uint32_t)text->len;
}

/* A decoder may drop the blank before the first token, so that a token " the" alone is "the". Of the text of an id written twice, the
 * second one has it all: "the" " the". False: the text is no such thing, as where two tokens make a character. */
static bool keep_second(struct reply_text *row)
{
    const size_t n = row->bytes, half = n / 2;
    const char *text = row->text;
    bool has_lost_blank = n % 2 == 1;
    if (has_lost_blank && text[half] != ' ')
        return false;
    if (memcmp(text, text + half + has_lost_blank, half) != 0)
        return false;
    row->bytes = (uint32_t)(half + has_lost_blank);
    memmove(row->text, text + half, row->bytes);
    row->text[row->bytes] = '\0';
    return true;
}

static enum status ask_row(struct rpc_channel *channel, struct rpc_request *request,
                           struct reply_text *row, struct rpc_error *error)
{
    uint32_t twice[] = {row->id, row->id};
    Kvferry__V1__DetokenizeRequest question;
    kvferry__v1__detokenize_request__init(&question);
    question.token_ids = twice;
    question.n_token_ids = 2;
    request->message = &question.base;
    request->arg = row;
    TRY(rpc_channel_call_wait(channel, request, error));
    if (row->text && keep_second(row))
        return STATUS_OK;
    free(row->text);
    row->text = NULL;
    question.n_token_ids = 1;
    return rpc_channel_call_wait(channel, request, error);
}

enum status reply_texts_ask(struct rpc_channel *channel, const char *authorization,
                            uint64_t deadline_ns, const struct reply *reply,
                            struct reply_texts *texts, struct rpc_error *error)
{
    struct rpc_request request = {
        .path = "/kvferry.v1.GenerationService/Detokenize",
        .response = &kvferry__v1__detokenize_response__descriptor,
        .deadline_ns = deadline_ns,
        .on_message = on_text,
        .headers = {{"authorization", authorization}},
        .n_headers = authorization[0] != '\0',
    };
    enum status status = make_rows(reply, texts);
    if (status != STATUS_OK)
        rpc_error_set(error, status, NULL, NULL, "%s", status_text(status));
    for (uint32_t i = 0; status == STATUS_OK && i < texts->n; i++)
        status = ask_row(channel, &request, &texts->rows[i], error);
    return status;
}

const struct reply_text *reply_texts_find(const struct reply_texts *texts, uint32_t id)
{
    const struct reply_text *row = texts->n ? bsearch(&id, texts->rows, texts->n,
                                                      sizeof *texts->rows, row_by_id)
                                            : NULL;
    return row && row->text ? row : NULL;
}

void reply_texts_finish(struct reply_texts *texts)
{
    for (uint32_t i = 0; i < texts->n; i++)
        free(texts->rows[i].text);
    free(texts->rows);
    *texts = (struct reply_texts){0};
}
