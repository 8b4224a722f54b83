/* generation_request: each field is judged by its bounds and named by its path; what is taken is a
 * copy, and what was left open is drawn afresh. */
#include "router/requests/generation_request.h"
#include "tests/router/support/chat_limits_sample.h"
#include "tests/router/support/door_double.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define VOCABULARY     2048u
#define CONTEXT_TOKENS 16u
#define TEXT_MAX       64u
#define PRIORITY_MAX   7

static const struct generation_defaults DEFAULTS = {
    .temperature = 1, .top_p = 1, .repetition_penalty = 1, .typical_p = 1};

static const struct request_limits LIMITS = {
    .model_name = "kjv",
    .defaults = &DEFAULTS,
    .card = {.vocabulary = VOCABULARY, .context_tokens = CONTEXT_TOKENS},
    .text_bytes_max = TEXT_MAX,
    .chat = &CHAT_LIMITS_SAMPLE,
    .chat_tokens_max = 700,
    .priority_max = PRIORITY_MAX,
};

/* A request that is taken, with everything that a test may change. */
struct sample {
    Kvferry__V1__GenerateRequest message;
    Kvferry__V1__SamplingParams sampling;
    Kvferry__V1__TokenIds ids;
    uint32_t list[CONTEXT_TOKENS + 1];
    char long_text[300]; /* all "x" */
};

static void set_text(struct sample *sample, const char *text)
{
    sample->message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    sample->message.text = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

static void set_ids(struct sample *sample, size_t n)
{
    sample->message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    sample->message.token_ids = &sample->ids;
    sample->ids.n_ids = n;
    sample->ids.ids = sample->list;
}

static void init_sample(struct sample *sample)
{
    kvferry__v1__generate_request__init(&sample->message);
    kvferry__v1__sampling_params__init(&sample->sampling);
    kvferry__v1__token_ids__init(&sample->ids);
    for (uint32_t i = 0; i < CONTEXT_TOKENS + 1; i++)
        sample->list[i] = i;
    memset(sample->long_text, 'x', sizeof sample->long_text);
    sample->message.sampling = &sample->sampling;
    set_text(sample, "In the beginning");
}

static enum status take(const struct sample *sample, struct generation *generation_out,
                        struct rpc_error *error_out)
{
    static struct door_double call;
    memset(generation_out, 0, sizeof *generation_out);
    memset(error_out, 0, sizeof *error_out);
    door_double_init(&call, "");
    generation_out->call = &call.base;
    return generation_take(generation_out, &sample->message, &LIMITS, error_out);
}

/* ---- what is refused, and at which bound ---- */

static void set_model(struct sample *sample, size_t n)
{
    static const char *const NAMES[] = {"", "kjv", "kj", "KJV"};
    sample->message.model = (char *)NAMES[n];
}

static void set_request_id(struct sample *sample, size_t n)
{
    sample->long_text[n] = '\0';
    sample->message.request_id = sample->long_text;
}

static void set_request_id_byte(struct sample *sample, size_t byte)
{
    static char id[] = "a?c";
    id[1] = (char)byte;
    sample->message.request_id = id;
}

static void set_request_id_text(struct sample *sample, size_t which)
{
    static const char *const IDS[] = {" ", " a", "a ", "a  b"};
    sample->message.request_id = (char *)IDS[which];
}

static void set_salt(struct sample *sample, size_t n)
{
    sample->long_text[n] = '\0';
    sample->message.cache_salt = sample->long_text;
}

static void set_text_bytes(struct sample *sample, size_t n)
{
    sample->long_text[n] = '\0';
    set_text(sample, sample->long_text);
}

static void set_last_id(struct sample *sample, size_t id)
{
    set_ids(sample, 3);
    sample->list[2] = (uint32_t)id;
}

static void set_no_prompt(struct sample *sample, size_t n)
{
    sample->message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT__NOT_SET;
    sample->message.text = (ProtobufCBinaryData){0};
    (void)n;
}

static void set_null_ids(struct sample *sample, size_t n)
{
    set_ids(sample, n);
    sample->message.token_ids = NULL;
}

static void set_logprobs(struct sample *sample, size_t n)
{
    sample->sampling.logprobs = (uint32_t)n;
}

static void set_priority(struct sample *sample, size_t n)
{
    sample->message
        .priority_presence_case = KVFERRY__V1__GENERATE_REQUEST__PRIORITY_PRESENCE_PRIORITY;
    sample->message.priority = (int32_t)n - 200;
}

static const struct {
    void (*set)(struct sample *sample, size_t n);
    size_t n;
    enum status status;
    const char *field; /* of the error */
    const char *part;  /* of its sentence */
} CASES[] = {
    {set_model, 0, STATUS_OK, "", ""},
    {set_model, 1, STATUS_OK, "", ""},
    {set_model, 2, STATUS_MODEL_NOT_FOUND, "model", "\"kj\" is not served here; \"kjv\" is"},
    {set_model, 3, STATUS_MODEL_NOT_FOUND, "model", "KJV"},
    {set_request_id, 0, STATUS_OK, "", ""},
    {set_request_id, REQUEST_ID_MAX, STATUS_OK, "", ""},
    {set_request_id, REQUEST_ID_MAX + 1, STATUS_INVALID_ARGUMENT, "request_id", "129 bytes"},
    {set_request_id_byte, ' ', STATUS_OK, "", ""},
    {set_request_id_byte, '~', STATUS_OK, "", ""},
    {set_request_id_byte, '\n', STATUS_INVALID_ARGUMENT, "request_id", "byte 0x0a at 1"},
    {set_request_id_byte, 0x7f, STATUS_INVALID_ARGUMENT, "request_id", "byte 0x7f at 1"},
    {set_request_id_byte, 0xe9, STATUS_INVALID_ARGUMENT, "request_id", "byte 0xe9 at 1"},
    {set_request_id_text, 0, STATUS_INVALID_ARGUMENT, "request_id", "begins or ends with a space"},
    {set_request_id_text, 1, STATUS_INVALID_ARGUMENT, "request_id", "begins or ends with a space"},
    {set_request_id_text, 2, STATUS_INVALID_ARGUMENT, "request_id", "begins or ends with a space"},
    {set_request_id_text, 3, STATUS_OK, "", ""},
    {set_salt, 0, STATUS_OK, "", ""},
    {set_salt, CACHE_SALT_MAX, STATUS_OK, "", ""},
    {set_salt, CACHE_SALT_MAX + 1, STATUS_INVALID_ARGUMENT, "cache_salt", "129 bytes"},
    {set_priority, 100, STATUS_OK, "", ""},
    {set_priority, 99, STATUS_INVALID_ARGUMENT, "priority", "is -101; it must be -100 to 100"},
    {set_priority, 200 + PRIORITY_MAX, STATUS_OK, "", ""},
    {set_priority, 201 + PRIORITY_MAX, STATUS_NOT_ALLOWED, "priority", "is 8; you may ask for 7"},
    {set_priority, 300, STATUS_NOT_ALLOWED, "priority", "is 100; you may ask for 7 at most"},
    {set_priority, 301, STATUS_INVALID_ARGUMENT, "priority", "is 101; it must be -100 to 100"},
    {set_text_bytes, 1, STATUS_OK, "", ""},
    {set_text_bytes, TEXT_MAX, STATUS_OK, "", ""},
    {set_text_bytes, 0, STATUS_INVALID_ARGUMENT, "text", "is empty"},
    {set_text_bytes, TEXT_MAX + 1, STATUS_PROMPT_TOO_LONG, "text", "65 bytes; at most 64"},
    {set_no_prompt, 0, STATUS_INVALID_ARGUMENT, "prompt", "is missing"},
    {set_null_ids, 3, STATUS_INVALID_ARGUMENT, "token_ids", "is empty"},
    {set_ids, 0, STATUS_INVALID_ARGUMENT, "token_ids", "is empty"},
    {set_ids, 1, STATUS_OK, "", ""},
    {set_ids, CONTEXT_TOKENS - 1, STATUS_OK, "", ""},
    {set_ids, CONTEXT_TOKENS, STATUS_PROMPT_TOO_LONG, "prompt", "16 tokens"},
    {set_last_id, VOCABULARY - 1, STATUS_OK, "", ""},
    {set_last_id, VOCABULARY, STATUS_INVALID_ARGUMENT, "token_ids.ids[2]", "2048"},
    {set_last_id, UINT32_MAX, STATUS_INVALID_ARGUMENT, "token_ids.ids[2]", "4294967295"},
    {set_logprobs, LOGPROBS_MAX, STATUS_OK, "", ""},
    {set_logprobs, LOGPROBS_MAX + 1, STATUS_INVALID_ARGUMENT, "sampling.logprobs", "21"},
};

Test(generation_request, judges_every_field_at_its_bound)
{
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct sample sample;
        struct generation generation;
        struct rpc_error error;
        init_sample(&sample);
        CASES[i].set(&sample, CASES[i].n);
        enum status status = take(&sample, &generation, &error);
        cr_assert_eq(status, CASES[i].status, "case %zu: %s: %s", i, status_name(status),
                     error.message);
        if (status != STATUS_OK) {
            cr_assert_str_eq(error.field, CASES[i].field, "case %zu", i);
            cr_assert_not_null(strstr(error.message, error.field), "case %zu: %s", i,
                               error.message);
            cr_assert_not_null(strstr(error.message, CASES[i].part), "case %zu: %s", i,
                               error.message);
            cr_assert_eq(error.status, status, "case %zu", i);
        }
        free(generation.text);
        free(generation.token_ids);
    }
}

/* ---- what is taken ---- */

static enum status take_model(const char *model, struct generation *generation_out,
                              struct rpc_error *error_out)
{
    static struct door_double call;
    struct request_limits limits = LIMITS;
    struct sample sample;
    init_sample(&sample);
    sample.message.model = (char *)model;
    limits.card.n_adapters = 2;
    limits.card.adapters[0] = (struct adapter_id){.name = "law", .digest = {1, 2}};
    limits.card.adapters[1] = (struct adapter_id){.name = "kjv", .digest = {3, 4}};
    memset(generation_out, 0, sizeof *generation_out);
    memset(error_out, 0, sizeof *error_out);
    door_double_init(&call, "");
    generation_out->call = &call.base;
    const enum status status = generation_take(generation_out, &sample.message, &limits, error_out);
    free(generation_out->text);
    generation_out->text = NULL;
    return status;
}

Test(generation_request, a_model_may_be_an_adapter_of_it)
{
    static const char *const UNKNOWN[] = {"Law", "la", "law ", "law=law", "other"};
    struct generation generation;
    struct rpc_error error;
    cr_assert_eq(take_model("law", &generation, &error), STATUS_OK, "%s", error.message);
    cr_assert_str_eq(generation.adapter.name, "law");
    cr_assert_eq(generation.adapter.digest[1], 2);
    cr_assert_eq(take_model("", &generation, &error), STATUS_OK, "%s", error.message);
    cr_assert(adapter_id_is_none(&generation.adapter));
    cr_assert_eq(take_model("kjv", &generation, &error), STATUS_OK, "%s", error.message);
    cr_assert(adapter_id_is_none(&generation.adapter), "the model's own name comes first");
    for (size_t i = 0; i < sizeof UNKNOWN / sizeof *UNKNOWN; i++) {
        cr_expect_eq(take_model(UNKNOWN[i], &generation, &error), STATUS_MODEL_NOT_FOUND, "%s",
                     UNKNOWN[i]);
        cr_expect_str_eq(error.field, "model");
        cr_expect(strstr(error.message, "is not served here; \"kjv\" is, and adapters of it"), "%s",
                  error.message);
    }
}

Test(generation_request, takes_copies)
{
    struct sample sample;
    struct generation generation;
    struct rpc_error error;
    char text[] = "text", id[] = "id-1", salt[] = "salt";
    init_sample(&sample);
    set_text(&sample, text);
    sample.message.request_id = id;
    sample.message.cache_salt = salt;
    sample.message.return_timing = true;
    sample.message.return_progress = true;
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK);
    text[0] = id[0] = salt[0] = '?';
    cr_assert_eq(generation.text_bytes, 4);
    cr_assert_arr_eq(generation.text, "text", 4);
    cr_assert_str_eq(generation.request_id, "id-1");
    cr_assert_str_eq(generation.cache_salt, "salt");
    cr_assert(generation.return_timing && generation.return_progress);
    cr_assert(generation.add_special, "as it is when nobody says");
    free(generation.text);

    set_ids(&sample, 3);
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK);
    sample.list[0] = 99;
    cr_assert_null(generation.text);
    cr_assert_eq(generation.n_tokens, 3);
    cr_assert_eq(generation.token_ids[0], 0);
    cr_assert_eq(generation.token_ids[2], 2);
    free(generation.token_ids);
}

Test(generation_request, draws_the_seed_that_was_left_open_and_keeps_one_that_was_not)
{
    struct sample sample;
    struct generation first, second;
    struct rpc_error error;
    init_sample(&sample);
    cr_assert_eq(take(&sample, &first, &error), STATUS_OK);
    cr_assert_eq(take(&sample, &second, &error), STATUS_OK);
    cr_assert_str_eq(first.request_id, "", "the call's own will do");
    cr_assert_neq(first.sampling.params.seed, second.sampling.params.seed);
    free(first.text);
    free(second.text);

    sample.sampling.seed_presence_case = KVFERRY__V1__SAMPLING_PARAMS__SEED_PRESENCE_SEED;
    sample.sampling.seed = 0;
    cr_assert_eq(take(&sample, &first, &error), STATUS_OK);
    cr_assert_eq(first.sampling.params.seed, 0, "a seed of 0 is a seed");
    free(first.text);
}

/* Complete is judged by the same code as Generate: its message must be the same but for its name. */
Test(generation_request, complete_has_the_fields_of_generate)
{
    const ProtobufCMessageDescriptor *one = &kvferry__v1__generate_request__descriptor;
    const ProtobufCMessageDescriptor *other = &kvferry__v1__complete_request__descriptor;
    cr_assert_eq(one->n_fields, other->n_fields);
    cr_assert_eq(one->sizeof_message, other->sizeof_message);
    for (unsigned i = 0; i < one->n_fields; i++) {
        const ProtobufCFieldDescriptor *a = &one->fields[i], *b = &other->fields[i];
        cr_assert_str_eq(a->name, b->name);
        cr_assert_eq(a->id, b->id, "%s", a->name);
        cr_assert_eq(a->label, b->label, "%s", a->name);
        cr_assert_eq(a->type, b->type, "%s", a->name);
        cr_assert_eq(a->flags, b->flags, "%s", a->name);
        cr_assert_eq(a->offset, b->offset, "%s", a->name);
        cr_assert_eq(a->quantifier_offset, b->quantifier_offset, "%s", a->name);
        cr_assert_eq(a->descriptor, b->descriptor, "%s", a->name);
    }
}

Test(generation_request, takes_the_priority_that_is_given_and_else_none)
{
    struct sample sample;
    struct generation generation;
    struct rpc_error error;
    init_sample(&sample);
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK);
    cr_assert_eq(generation.standing.tenant, 0);
    cr_assert_eq(generation.standing.priority, 0);
    free(generation.text);
    set_priority(&sample, 200 - 5);
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK);
    cr_assert_eq(generation.standing.priority, -5);
    free(generation.text);
}

/* ---- text to tokens ---- */

static struct tokenizer *load_tokenizer(void)
{
    struct tokenizer *tokenizer;
    struct error error = {0};
    cr_assert_eq(tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", &error, &tokenizer), STATUS_OK,
                 "%s", error.text);
    return tokenizer;
}

static enum status tokenize(const struct tokenizer *tokenizer, const char *text,
                            uint32_t context_tokens, struct generation *generation_out,
                            struct rpc_error *error_out)
{
    struct sample sample;
    init_sample(&sample);
    set_text(&sample, text);
    cr_assert_eq(take(&sample, generation_out, error_out), STATUS_OK);
    return generation_tokenize(generation_out, tokenizer, context_tokens, error_out);
}

Test(generation_request, text_becomes_tokens_that_must_fit_the_context)
{
    struct tokenizer *tokenizer = load_tokenizer();
    struct generation generation;
    struct rpc_error error;
    static const char TEXT[] = "And the children of Israel did so.";
    cr_assert_eq(tokenize(tokenizer, TEXT, 64, &generation, &error), STATUS_OK);
    uint32_t n = generation.n_tokens;
    cr_assert_gt(n, 4);
    cr_assert_eq(generation.token_ids[0], tokenizer_special_ids(tokenizer).bos);
    cr_assert_null(generation.text, "no longer needed");
    cr_assert_eq(generation.sampling.params.max_tokens, 64 - n, "what the context leaves");
    free(generation.token_ids);

    struct sample bare;
    init_sample(&bare);
    set_text(&bare, TEXT);
    bare.message.add_special_tokens_presence_case =
        KVFERRY__V1__GENERATE_REQUEST__ADD_SPECIAL_TOKENS_PRESENCE_ADD_SPECIAL_TOKENS;
    cr_assert_eq(take(&bare, &generation, &error), STATUS_OK);
    cr_assert_eq(generation_tokenize(&generation, tokenizer, 64, &error), STATUS_OK);
    cr_assert_eq(generation.n_tokens, n - 1, "without <s>");
    cr_assert_neq(generation.token_ids[0], tokenizer_special_ids(tokenizer).bos);
    free(generation.token_ids);

    cr_assert_eq(tokenize(tokenizer, TEXT, n + 1, &generation, &error), STATUS_OK);
    cr_assert_eq(generation.sampling.params.max_tokens, 1);
    free(generation.token_ids);
    for (uint32_t context_tokens = n - 1; context_tokens <= n; context_tokens++) {
        cr_assert_eq(tokenize(tokenizer, TEXT, context_tokens, &generation, &error),
                     STATUS_PROMPT_TOO_LONG, "context %u", context_tokens);
        cr_assert_not_null(strstr(error.message, "prompt"));
        free(generation.token_ids);
    }
    tokenizer_destroy(tokenizer);
}

Test(generation_request, text_that_is_no_utf8_is_refused_by_name)
{
    struct tokenizer *tokenizer = load_tokenizer();
    struct generation generation;
    struct rpc_error error;
    cr_assert_eq(tokenize(tokenizer, "a\xff", 64, &generation, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.field, "text");
    cr_assert_str_eq(error.message, "text is not UTF-8 at byte 1");
    free(generation.token_ids);
    tokenizer_destroy(tokenizer);
}

Test(generation_request, text_goes_on_behind_a_nul)
{
    struct tokenizer *tokenizer = load_tokenizer();
    struct sample sample;
    struct generation generation, without;
    struct rpc_error error;
    init_sample(&sample);
    sample.message.text = (ProtobufCBinaryData){5, (uint8_t *)"In\0In"};
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK);
    cr_assert_eq(generation_tokenize(&generation, tokenizer, 64, &error), STATUS_OK);
    cr_assert_eq(tokenize(tokenizer, "In", 64, &without, &error), STATUS_OK);
    cr_assert_gt(generation.n_tokens, without.n_tokens + 1);
    free(generation.token_ids);
    free(without.token_ids);
    tokenizer_destroy(tokenizer);
}

Test(generation_request, chat_without_max_tokens_has_a_bound_of_its_own)
{
    struct sample sample;
    struct generation generation;
    struct rpc_error error;
    Kvferry__V1__ChatPrompt chat;
    Kvferry__V1__ChatMessage message, *messages[] = {&message};
    init_sample(&sample);
    kvferry__v1__chat_prompt__init(&chat);
    kvferry__v1__chat_message__init(&message);
    message.role = (char *)"user";
    chat.messages = messages;
    chat.n_messages = 1;
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK);
    cr_expect_eq(generation.sampling.params.max_tokens, 256, "text has a default of its own");
    free(generation.text);
    sample.message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT;
    sample.message.chat = &chat;
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK, "%s", error.message);
    cr_expect_eq(generation.sampling.params.max_tokens, 700);
    free(generation.text);
    sample.sampling.min_tokens = 900;
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK, "%s", error.message);
    cr_expect_eq(generation.sampling.params.max_tokens, 900);
    free(generation.text);
    sample.sampling.min_tokens = 0;
    sample.sampling
        .max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sample.sampling.max_tokens = 3;
    cr_assert_eq(take(&sample, &generation, &error), STATUS_OK, "%s", error.message);
    cr_expect_eq(generation.sampling.params.max_tokens, 3, "a demand");
    free(generation.text);
}

/* ---- windows of replies ---- */

Test(generation_request, a_reply_window_is_one_that_the_workers_have)
{
    static const struct {
        struct sink_window sinks;
        uint32_t window;
        const char *value, *sentence;
    } CASES[] = {
        {{0}, 64, "64", "sampling.reply_window is 64; the workers have no sink_tokens"},
        {{0},
         UINT32_MAX,
         "4294967295",
         "sampling.reply_window is 4294967295; the workers have no sink_tokens"},
        {{64, 4},
         4,
         "4",
         "sampling.reply_window is 4; it must be over sink_tokens, 4, and at most the workers' "
         "attention_window, 64"},
        {{64, 4},
         65,
         "65",
         "sampling.reply_window is 65; it must be over sink_tokens, 4, and at most the workers' "
         "attention_window, 64"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        static struct door_double call;
        struct request_limits limits = LIMITS;
        struct generation generation = {.call = &call.base};
        struct rpc_error error = {0};
        struct sample sample;
        limits.card.has_geometry = true;
        limits.card.geometry.sinks = CASES[i].sinks;
        door_double_init(&call, "");
        init_sample(&sample);
        sample.sampling.reply_window_presence_case =
            KVFERRY__V1__SAMPLING_PARAMS__REPLY_WINDOW_PRESENCE_REPLY_WINDOW;
        sample.sampling.reply_window = CASES[i].window;
        cr_expect_eq(generation_take(&generation, &sample.message, &limits, &error),
                     STATUS_INVALID_ARGUMENT);
        cr_expect_str_eq(error.field, "sampling.reply_window");
        cr_expect_str_eq(error.value, CASES[i].value);
        cr_expect_str_eq(error.message, CASES[i].sentence);
        free(generation.text);
        free(generation.token_ids);
    }
}
