#include "api/openai/openai_error.h"

#include "base/utf8.h"
#include "rpc/request_id.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOO_LONG "context_length_exceeded"

static unsigned http_code(enum status status)
{
    if (status == STATUS_REPLY_TOO_LONG || status == STATUS_TEMPLATE_LIMIT)
        return 400; /* no matter of how much is asked at once */
    if (status == STATUS_NO_MEMORY || status == STATUS_NO_THREAD)
        return 503;
    switch (status_grpc_code(status)) {
    case 3:  /* INVALID_ARGUMENT */
    case 6:  /* ALREADY_EXISTS: clients retry 409 */
    case 9:  /* FAILED_PRECONDITION */
    case 11: /* OUT_OF_RANGE */
    case 12: /* UNIMPLEMENTED: clients retry 501 */
        return 400;
    case 5:
        return 404;
    case 7:
        return 403;
    case 16:
        return 401;
    case 8:
        return 429;
    case 14:
        return 503;
    case 4:
        return 504;
    default:
        return 500;
    }
}

static const char *kind_of(unsigned code)
{
    switch (code) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    default:
        return code < 500 ? "invalid_request_error" : "server_error";
    }
}

/* OpenAI's word, where it has one. */
static const char *reason_of(enum status status)
{
    switch (status) {
    case STATUS_INVALID_ARGUMENT:
        return "invalid_value";
    case STATUS_PROMPT_TOO_LONG:
        return TOO_LONG;
    case STATUS_UNAUTHENTICATED:
        return "invalid_api_key";
    case STATUS_QUOTA:
        return "rate_limit_exceeded";
    default:
        return status_reason(status);
    }
}

/* "CONSTRAINT_UNMET" is "constraint_unmet" here. */
static void set_reason(struct openai_error *error, const char *reason)
{
    size_t n = 0;
    for (; reason[n] && n < sizeof error->reason - 1; n++)
        error->reason[n] = (char)tolower((unsigned char)reason[n]);
    error->reason[n] = '\0';
}

/* "sampling.top_p" is OpenAI's "top_p"; what a prompt is called is known to the door alone. */
static const char *without_prefix(const char *name)
{
    static const char PREFIX[] = "sampling.";
    return strncmp(name, PREFIX, sizeof PREFIX - 1) == 0 ? name + sizeof PREFIX - 1 : name;
}

void openai_error_of(const struct rpc_error *error, struct openai_error *error_out)
{
    assert(error->status != STATUS_OK);
    unsigned code = http_code(error->status);
    *error_out = (struct openai_error){
        .code = code,
        .kind = kind_of(code),
        .may_retry = rpc_error_is_retryable(error),
        .retry_after_s = (error->retry_after_ms + 999) / 1000,
    };
    set_reason(error_out, reason_of(error->status));
    if (code == 429 && error_out->retry_after_s == 0)
        error_out->retry_after_s = 1;
    snprintf(error_out->message, sizeof error_out->message, "%s",
             without_prefix(error->message[0] ? error->message : status_text(error->status)));
    snprintf(error_out->param, sizeof error_out->param, "%s", without_prefix(error->field));
}

void openai_error_set(struct openai_error *error, unsigned code, const char *reason,
                      const char *param, const char *format, ...)
{
    va_list arguments;
    char text[sizeof error->message];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    *error = (struct openai_error){.code = code, .kind = kind_of(code)};
    set_reason(error, reason ? reason : "");
    utf8_clean(text, strlen(text), error->message, sizeof error->message);
    utf8_clean(param ? param : "", param ? strlen(param) : 0, error->param, sizeof error->param);
}

/* Members with which a prompt that itself fits is too long: their sentences say so. */
static bool is_of_reply(const char *param)
{
    static const char *const MEMBERS[] = {"max_tokens", "max_completion_tokens", "min_tokens"};
    for (size_t i = 0; i < sizeof MEMBERS / sizeof *MEMBERS; i++)
        if (strcmp(param, MEMBERS[i]) == 0)
            return true;
    return false;
}

void openai_error_explain(struct openai_error *error)
{
    char sentence[sizeof error->message];
    if (strcmp(error->reason, TOO_LONG) != 0 || is_of_reply(error->param))
        return;
    snprintf(sentence, sizeof sentence, "%s", error->message);
    snprintf(error->message, sizeof error->message, "the prompt is too long: %.350s", sentence);
}

json_t *openai_error_json(const struct openai_error *error)
{
    return json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", error->message, "type",
                     error->kind, "param", error->param[0] ? error->param : NULL, "code",
                     error->reason[0] ? error->reason : NULL);
}

void openai_error_reply(struct http_exchange *exchange, const struct openai_error *error,
                        const char *request_id)
{
    char retry_after[16];
    struct http_field fields[4] = {{"Content-Type", "application/json"}};
    size_t n = 1;
    snprintf(retry_after, sizeof retry_after, "%u", error->retry_after_s);
    if (error->retry_after_s > 0)
        fields[n++] = (struct http_field){"Retry-After", retry_after};
    if (error->code >= 429 && !error->may_retry)
        fields[n++] = (struct http_field){"x-should-retry", "false"};
    if (request_id[0])
        fields[n++] = (struct http_field){"x-request-id", request_id};
    const struct http_answer_head head = {.code = error->code, .fields = fields, .n_fields = n};
    json_t *body = openai_error_json(error);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text || http_exchange_reply(exchange, &head, text, strlen(text)) == STATUS_QUEUE_FULL)
        http_exchange_cut(exchange);
    free(text);
}

static size_t write_refusal(void *arg, unsigned code, const char *sentence,
                            char body_out[HTTP_ERROR_BYTES_MAX])
{
    struct openai_error error;
    (void)arg;
    openai_error_set(&error, code, NULL, NULL, "%s", sentence);
    json_t *body = openai_error_json(&error);
    size_t n = body ? json_dumpb(body, body_out, HTTP_ERROR_BYTES_MAX, JSON_COMPACT) : 0;
    json_decref(body);
    return n <= HTTP_ERROR_BYTES_MAX ? n : 0;
}

const struct http_error_form openai_error_form = {
    .type = "application/json", .write = write_refusal, .repeats = RPC_REQUEST_ID_KEY};
