/* status_details: what a server says of a failure is what its client reads. */
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"
#include "rpc/status_details.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct rpc_error there_and_back(const struct rpc_error *error)
{
    uint8_t bytes[RPC_STATUS_DETAILS_MAX];
    size_t n = rpc_error_encode(error, bytes);
    cr_assert_leq(n, sizeof bytes);
    struct rpc_error back;
    rpc_error_decode(status_grpc_code(error->status), error->message, strlen(error->message), bytes,
                     n, &back);
    return back;
}

Test(status_details, every_status_comes_back_with_its_sentence)
{
#define X(name, grpc, reason_text, text)                                                           \
    if (STATUS_##name != STATUS_OK) {                                                              \
        struct rpc_error error;                                                                    \
        rpc_error_set(&error, STATUS_##name, NULL, NULL, "sentence of %s", #name);                 \
        struct rpc_error back = there_and_back(&error);                                            \
        cr_assert_eq(back.status, STATUS_##name, "%s came back as %s", #name,                      \
                     status_name(back.status));                                                    \
        cr_assert_str_eq(back.message, error.message);                                             \
        cr_assert_str_eq(back.reason, reason_text);                                                \
        cr_assert_eq(back.grpc_code, grpc);                                                        \
        cr_assert_eq(back.retry_after_ms > 0, rpc_error_is_retryable(&error));                     \
    }
    STATUS_TABLE(X)
#undef X
}

/* A build that knows nothing of shares reads that the queue is full. */
Test(status_details, a_callers_share_is_a_full_queue_with_a_scope)
{
    struct rpc_error error;
    uint8_t bytes[RPC_STATUS_DETAILS_MAX];
    rpc_error_set(&error, STATUS_SHARE_FULL, NULL, NULL, "%s", "full");
    size_t n = rpc_error_encode(&error, bytes);
    cr_expect(memmem(bytes, n, "QUEUE_FULL", 10));
    cr_expect_not(memmem(bytes, n, "SHARE_FULL", 10));
    rpc_error_set(&error, STATUS_QUEUE_FULL, NULL, NULL, "%s", "full");
    cr_expect_eq(there_and_back(&error).status, STATUS_QUEUE_FULL);
}

Test(status_details, field_value_and_retry_come_back)
{
    struct rpc_error error;
    rpc_error_set(&error, STATUS_INVALID_ARGUMENT, "sampling.top_p", "1.5", "top_p %s: 0 to 1",
                  "1.5");
    struct rpc_error back = there_and_back(&error);
    cr_assert_str_eq(back.field, "sampling.top_p");
    cr_assert_str_eq(back.value, "1.5");
    cr_assert_eq(back.retry_after_ms, 0);

    rpc_error_set(&error, STATUS_QUEUE_FULL, NULL, NULL, "queue of %d is full", 64);
    error.retry_after_ms = 12345;
    cr_assert_eq(there_and_back(&error).retry_after_ms, 12345);
    error.retry_after_ms = UINT32_MAX;
    cr_assert_gt(there_and_back(&error).retry_after_ms, UINT32_MAX - 2000);
}

/* NULL: the key is not there. */
static const char *metadata(const struct rpc_error *error, const char *key)
{
    static char value[256];
    uint8_t bytes[RPC_STATUS_DETAILS_MAX];
    size_t n = rpc_error_encode(error, bytes);
    Google__Rpc__Status *status = google__rpc__status__unpack(NULL, n, bytes);
    Google__Rpc__ErrorInfo *info = google__rpc__error_info__unpack(
        NULL, status->details[0]->value.len, status->details[0]->value.data);
    bool is_found = false;
    for (size_t i = 0; i < info->n_metadata; i++) {
        if (strcmp(info->metadata[i]->key, key) != 0)
            continue;
        is_found = true;
        snprintf(value, sizeof value, "%s", info->metadata[i]->value);
    }
    google__rpc__error_info__free_unpacked(info, NULL);
    google__rpc__status__free_unpacked(status, NULL);
    return is_found ? value : NULL;
}

Test(status_details, error_info_says_which_request_and_whether_to_send_it_again)
{
    static const struct {
        enum status status;
        const char *retryable, *after_ms;
    } CASES[] = {
        {STATUS_INVALID_ARGUMENT, "false", NULL},
        {STATUS_TIMED_OUT, "false", NULL},
        {STATUS_SLOW_READER, "false", NULL},
        {STATUS_REPLY_TOO_LONG, "false", NULL},
        {STATUS_BUG, "false", NULL},
        {STATUS_QUEUE_FULL, "true", "100"},
        {STATUS_TRANSFER_FAILED, "true", "100"},
        {STATUS_LOADING, "true", "1000"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct rpc_error error;
        rpc_error_set(&error, CASES[i].status, NULL, NULL, "%s", "sentence");
        cr_assert_null(metadata(&error, "request_id"));
        snprintf(error.request_id, sizeof error.request_id, "request 17");
        cr_assert_str_eq(metadata(&error, "request_id"), "request 17");
        cr_assert_str_eq(there_and_back(&error).request_id, "request 17");
        cr_assert_str_eq(metadata(&error, "retryable"), CASES[i].retryable);
        const char *after_ms = metadata(&error, "retry_after_ms");
        cr_assert_eq(after_ms != NULL, CASES[i].after_ms != NULL);
        if (after_ms)
            cr_assert_str_eq(after_ms, CASES[i].after_ms);
        cr_assert_null(metadata(&error, "field"));
    }
}

Test(status_details, the_wire_is_google_rpc)
{
    struct rpc_error error;
    rpc_error_set(&error, STATUS_INVALID_ARGUMENT, "n", "17", "n 17: at most 16");
    uint8_t bytes[RPC_STATUS_DETAILS_MAX];
    size_t n = rpc_error_encode(&error, bytes);
    Google__Rpc__Status *status = google__rpc__status__unpack(NULL, n, bytes);
    cr_assert_not_null(status);
    cr_assert_eq(status->code, 3);
    cr_assert_str_eq(status->message, "n 17: at most 16");
    cr_assert_eq(status->n_details, 2);
    cr_assert_str_eq(status->details[0]->type_url, "type.googleapis.com/google.rpc.ErrorInfo");
    cr_assert_str_eq(status->details[1]->type_url, "type.googleapis.com/google.rpc.BadRequest");
    Google__Rpc__ErrorInfo *info = google__rpc__error_info__unpack(
        NULL, status->details[0]->value.len, status->details[0]->value.data);
    cr_assert_str_eq(info->domain, "kvferry");
    cr_assert_str_eq(info->reason, "BAD_FIELD");
    Google__Rpc__BadRequest *bad = google__rpc__bad_request__unpack(
        NULL, status->details[1]->value.len, status->details[1]->value.data);
    cr_assert_str_eq(bad->field_violations[0]->field, "n");
    google__rpc__bad_request__free_unpacked(bad, NULL);
    google__rpc__error_info__free_unpacked(info, NULL);
    google__rpc__status__free_unpacked(status, NULL);
}

Test(status_details, the_longest_error_fits)
{
    char text[400];
    memset(text, '\x01', sizeof text);
    text[sizeof text - 1] = '\0';
    struct rpc_error error;
    rpc_error_set(&error, STATUS_QUEUE_FULL, text, text, "%s", text);
    error.retry_after_ms = UINT32_MAX;
    memset(error.request_id, 'x', RPC_REQUEST_ID_MAX);
    struct rpc_error back = there_and_back(&error);
    cr_assert_eq(strlen(back.request_id), RPC_REQUEST_ID_MAX);
    cr_assert_eq(strlen(back.message), sizeof back.message - 1);
    cr_assert_eq(back.message[0], '?');
}

Test(status_details, bare_codes_and_rubbish_details_fall_back_to_the_code)
{
    struct rpc_error error;
    rpc_error_decode(14, "Socket closed", 13, NULL, 0, &error);
    cr_assert_eq(error.status, STATUS_PEER_LOST);
    cr_assert_str_eq(error.message, "Socket closed");
    rpc_error_decode(4, "", 0, (const uint8_t *)"\xFF\xFF\xFF", 3, &error);
    cr_assert_eq(error.status, STATUS_TIMED_OUT);
    rpc_error_decode(99, "?", 1, NULL, 0, &error);
    cr_assert_eq(error.status, STATUS_BUG);
    rpc_error_decode(0, "", 0, NULL, 0, &error);
    cr_assert_eq(error.status, STATUS_OK);
}

Test(status_details, a_reason_that_leads_the_message_counts_if_its_code_fits)
{
    struct rpc_error error;
    rpc_error_decode(8, "SLOW_READER: too slow", 21, NULL, 0, &error);
    cr_assert_eq(error.status, STATUS_SLOW_READER);
    rpc_error_decode(14, "SLOW_READER: too slow", 21, NULL, 0, &error);
    cr_assert_eq(error.status, STATUS_PEER_LOST);
    rpc_error_decode(8, "whatever: too slow", 18, NULL, 0, &error);
    cr_assert_eq(error.status, STATUS_QUEUE_FULL);
}
