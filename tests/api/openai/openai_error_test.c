/* openai_error: each status has the HTTP code that official clients retry or do not, and a reason; every text is JSON. */
#include "api/openai/openai_error.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct {
    enum status status;
    unsigned code;
    const char *kind, *reason;
} ROWS[] = {
    {STATUS_NO_BLOCKS, 429, "rate_limit_error", "kv_full"},
    {STATUS_QUEUE_FULL, 429, "rate_limit_error", "queue_full"},
    {STATUS_SHARE_FULL, 429, "rate_limit_error", "share_full"},
    {STATUS_QUOTA, 429, "rate_limit_error", "rate_limit_exceeded"},
    {STATUS_NOT_READY, 503, "server_error", "not_ready"},
    {STATUS_LOADING, 503, "server_error", "loading"},
    {STATUS_DRAINING, 503, "server_error", "draining"},
    {STATUS_NO_GENERATION_WORKER, 503, "server_error", "no_generation_worker"},
    {STATUS_PEER_LOST, 503, "server_error", "peer_lost"},
    {STATUS_DEVICE_LOST, 503, "server_error", "device_lost"},
    {STATUS_NO_MEMORY, 503, "server_error", "no_memory"},
    {STATUS_NO_THREAD, 503, "server_error", "no_thread"},
    {STATUS_INVALID_ARGUMENT, 400, "invalid_request_error", "invalid_value"},
    {STATUS_PROMPT_TOO_LONG, 400, "invalid_request_error", "context_length_exceeded"},
    {STATUS_TEMPLATE_LIMIT, 400, "invalid_request_error", "template_limit"},
    {STATUS_NO_CHAT_TEMPLATE, 400, "invalid_request_error", "no_chat_template"},
    {STATUS_CONSTRAINT_UNMET, 400, "invalid_request_error", "constraint_unmet"},
    {STATUS_UNSUPPORTED, 400, "invalid_request_error", "unsupported"},
    {STATUS_REPLY_TOO_LONG, 400, "invalid_request_error", "reply_too_long"},
    {STATUS_DUPLICATE_REQUEST, 400, "invalid_request_error", "duplicate_request"},
    {STATUS_UNIMPLEMENTED, 400, "invalid_request_error", "unimplemented"},
    {STATUS_MODEL_NOT_FOUND, 404, "not_found_error", "model_not_found"},
    {STATUS_UNAUTHENTICATED, 401, "authentication_error", "invalid_api_key"},
    {STATUS_NOT_ALLOWED, 403, "permission_error", "not_allowed"},
    {STATUS_TIMED_OUT, 504, "server_error", "deadline"},
    {STATUS_LOGITS_NOT_FINITE, 500, "server_error", "logits_not_finite"},
    {STATUS_BUG, 500, "server_error", "bug"},
};

Test(openai_error, every_status_has_its_code)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct rpc_error error = {0};
        struct openai_error told;
        rpc_error_set(&error, ROWS[i].status, NULL, NULL, "%s", "sentence");
        openai_error_of(&error, &told);
        const char *name = status_text(ROWS[i].status);
        cr_expect_eq(told.code, ROWS[i].code, "%s: %u", name, told.code);
        cr_expect_str_eq(told.kind, ROWS[i].kind, "%s", name);
        cr_expect_str_eq(told.reason, ROWS[i].reason);
        cr_expect_eq(told.code == 429, told.retry_after_s > 0, "%s", name);
    }
}

Test(openai_error, whole_seconds_are_told_never_too_few)
{
    static const uint32_t TIMES[][2] = {{1, 1}, {1000, 1}, {1001, 2}, {59999, 60}, {0, 1}};
    for (size_t i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        struct rpc_error error = {.status = STATUS_QUOTA, .retry_after_ms = TIMES[i][0]};
        struct openai_error told;
        openai_error_of(&error, &told);
        cr_expect_eq(told.retry_after_s, TIMES[i][1], "%u ms: %u s", TIMES[i][0],
                     told.retry_after_s);
        cr_expect(told.may_retry);
    }
}

static void expect_json(const struct openai_error *error, const char *wanted)
{
    json_t *body = openai_error_json(error);
    char *text = json_dumps(body, JSON_COMPACT);
    cr_assert_not_null(text);
    cr_expect_str_eq(text, wanted);
    free(text);
    json_decref(body);
}

Test(openai_error, a_sampling_field_has_the_name_that_clients_know)
{
    struct rpc_error error = {0};
    struct openai_error told;
    rpc_error_set(&error, STATUS_INVALID_ARGUMENT, "sampling.top_p", "2", "sampling.top_p is 2");
    openai_error_of(&error, &told);
    expect_json(&told, "{\"error\":{\"message\":\"top_p is 2\",\"type\":\"invalid_request_error\","
                       "\"param\":\"top_p\",\"code\":\"invalid_value\"}}");
}

Test(openai_error, without_a_sentence_it_is_that_of_the_status)
{
    struct rpc_error error = {.status = STATUS_LOADING};
    struct openai_error told;
    openai_error_of(&error, &told);
    expect_json(&told, "{\"error\":{\"message\":\"the model is still loading\",\"type\":"
                       "\"server_error\",\"param\":null,\"code\":\"loading\"}}");
}

Test(openai_error, texts_that_are_no_utf8_become_json_all_the_same)
{
    struct openai_error error;
    openai_error_set(&error, 404, "model_not_found", "model", "model \"%s\"", "\xff\xc3");
    json_t *body = openai_error_json(&error);
    cr_expect_not_null(body);
    json_decref(body);
    openai_error_set(&error, 400, "unsupported_parameter", "x.\xc3", "x is not served");
    body = openai_error_json(&error);
    cr_expect_not_null(body);
    json_decref(body);
}

Test(openai_error, a_prompt_that_is_too_long_is_told_in_words_that_programs_look_for)
{
    struct rpc_error error = {0};
    struct openai_error told;
    rpc_error_set(&error, STATUS_PROMPT_TOO_LONG, "prompt", NULL, "prompt has 9 tokens");
    openai_error_of(&error, &told);
    openai_error_explain(&told);
    cr_expect_str_eq(told.message, "the prompt is too long: prompt has 9 tokens");
    rpc_error_set(&error, STATUS_PROMPT_TOO_LONG, "sampling.min_tokens", NULL, "min_tokens is 9");
    openai_error_of(&error, &told);
    openai_error_explain(&told);
    cr_expect_str_eq(told.message, "min_tokens is 9");
    rpc_error_set(&error, STATUS_INVALID_ARGUMENT, "prompt", NULL, "prompt is empty");
    openai_error_of(&error, &told);
    openai_error_explain(&told);
    cr_expect_str_eq(told.message, "prompt is empty");
}

Test(openai_error, the_port_refuses_in_the_same_form)
{
    char body[HTTP_ERROR_BYTES_MAX];
    size_t n = openai_error_form.write(NULL, 413, "too large", body);
    static const char WANTED[] = "{\"error\":{\"message\":\"too large\",\"type\":"
                                 "\"invalid_request_error\",\"param\":null,\"code\":null}}";
    cr_expect_eq(n, sizeof WANTED - 1);
    cr_expect_eq(memcmp(body, WANTED, n), 0);
}
