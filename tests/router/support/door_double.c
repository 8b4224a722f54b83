#include "tests/router/support/door_double.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct door_double *double_of(struct door_call *call)
{
    return (struct door_double *)call;
}

static void share(struct door_call *call)
{
    cr_assert_gt(atomic_fetch_add(&double_of(call)->n_holders, 1), 0);
}

static void release(struct door_call *call)
{
    cr_assert_gt(atomic_fetch_sub(&double_of(call)->n_holders, 1), 0);
}

static bool is_over(struct door_call *call)
{
    return double_of(call)->ended != STATUS_OK;
}

static enum status end_status(struct door_call *call)
{
    return double_of(call)->ended;
}

static void on_end(struct door_call *call, void (*end)(void *arg, enum status why), void *arg)
{
    cr_assert_null(double_of(call)->on_end);
    double_of(call)->on_end = end;
    double_of(call)->on_end_arg = arg;
}

static const char *request_id(struct door_call *call)
{
    return double_of(call)->request_id;
}

static void set_request_id(struct door_call *call, const char *id)
{
    snprintf(double_of(call)->request_id, sizeof double_of(call)->request_id, "%s", id);
}

static void origin(struct door_call *call, struct request_origin *origin_out)
{
    *origin_out = (struct request_origin){0};
    snprintf(origin_out->request_id, sizeof origin_out->request_id, "%s",
             double_of(call)->request_id);
}

static void peer(struct door_call *call, char *peer_out, size_t peer_bytes)
{
    (void)call;
    snprintf(peer_out, peer_bytes, "double");
}

static enum status add_text(struct door_double *call, const char *text, size_t bytes)
{
    if (call->is_counting)
        return STATUS_OK;
    if (call->text_bytes + bytes >= call->text_bytes_max)
        return STATUS_REPLY_TOO_LONG;
    memcpy(call->text + call->text_bytes, text, bytes);
    call->text_bytes += bytes;
    call->text[call->text_bytes] = '\0';
    return STATUS_OK;
}

/* What its text has no room for is not kept. */
static void add_to_choice(struct double_choice *choice, const char *text, size_t bytes)
{
    cr_assert_not(choice->has_ended);
    if (choice->text_bytes + bytes >= sizeof choice->text)
        return;
    memcpy(choice->text + choice->text_bytes, text, bytes);
    choice->text_bytes += bytes;
    choice->text[choice->text_bytes] = '\0';
}

static enum status take_piece(struct door_call *base, const struct reply_piece *piece)
{
    struct door_double *call = double_of(base);
    cr_assert_eq(call->n_ends, 0);
    if (call->refuses != STATUS_OK)
        return call->refuses;
    cr_assert(call->is_counting || call->n_ids + piece->n <= DOUBLE_IDS_MAX);
    if (!call->is_counting)
        memcpy(call->ids + call->n_ids, piece->token_ids, piece->n * sizeof *piece->token_ids);
    call->n_ids += piece->n;
    cr_assert_lt(piece->index, CHOICES_MAX);
    add_to_choice(&call->choices[piece->index], piece->text, piece->text_bytes);
    call->choices[piece->index].n_ids += piece->n;
    return add_text(call, piece->text, piece->text_bytes);
}

static enum status progress(struct door_call *call, uint32_t n_done, uint32_t n)
{
    cr_assert_leq(n_done, n);
    double_of(call)->n_progress++;
    return STATUS_OK;
}

static enum status scores(struct door_call *base, const uint32_t *token_ids,
                          const struct prompt_scores *scores)
{
    struct door_double *call = double_of(base);
    cr_assert_eq(call->n_ids, 0, "scores behind a token");
    cr_assert_eq(scores->first, call->n_scores, "each once and in order");
    cr_assert_leq(call->n_scores + scores->n, DOUBLE_IDS_MAX);
    for (uint32_t i = 0; i < scores->n; i++) {
        call->scored_ids[call->n_scores] = token_ids[i];
        call->scores[call->n_scores++] = scores->logprobs[i].logprob;
    }
    return STATUS_OK;
}

static enum status end(struct door_call *call, struct reply_end *end)
{
    struct double_choice *choice = &double_of(call)->choices[end->index];
    cr_assert_eq(double_of(call)->n_ends, 0);
    add_to_choice(choice, end->text, end->text_bytes);
    choice->has_ended = true;
    choice->end = *end;
    double_of(call)->n_ends += end->is_last;
    return add_text(double_of(call), end->text, end->text_bytes);
}

static void fail(struct door_call *call, const struct rpc_error *error)
{
    cr_assert_eq(double_of(call)->n_ends++, 0);
    double_of(call)->failure = *error;
}

static const struct door_ops OPS = {
    .share = share,
    .release = release,
    .is_over = is_over,
    .end_status = end_status,
    .on_end = on_end,
    .request_id = request_id,
    .set_request_id = set_request_id,
    .origin = origin,
    .peer = peer,
    .piece = take_piece,
    .progress = progress,
    .scores = scores,
    .end = end,
    .fail = fail,
};

void door_double_leave(struct door_double *call, enum status why)
{
    void (*on_end)(void *arg, enum status why) = call->on_end;
    call->on_end = NULL;
    if (on_end)
        on_end(call->on_end_arg, why);
}

void door_double_init(struct door_double *call, const char *request_id)
{
    *call = (struct door_double){.base = {.ops = &OPS, .deadline_ns = UINT64_MAX},
                                 .n_holders = 1,
                                 .text_bytes_max = DOUBLE_TEXT_MAX};
    snprintf(call->request_id, sizeof call->request_id, "%s", request_id);
}
