/* openai_request: each member at its bounds is taken and beyond them refused by name; what a body says reaches the router's request. */
#include "api/openai/openai_request.h"
#include "tests/router/support/chat_limits_sample.h"
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct openai_request request;
static struct openai_error error;

static void forget(void)
{
    openai_request_finish(&request);
}

TestSuite(openai_request, .fini = forget);

static bool read_body(bool is_chat, const char *body)
{
    openai_request_finish(&request);
    return openai_request_read(&request, is_chat, &CHAT_LIMITS_SAMPLE, body, strlen(body), &error);
}

#define PROMPT   "\"prompt\": \"x\""
#define MESSAGES "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]"

enum kinds { COMPLETIONS = 1, CHAT = 2, BOTH = 3 };

struct row {
    enum kinds kinds;
    char member[32], right[2][100], wrong[4][100];
};

#define STRING_17                                                                                  \
    "\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","   \
    "\"a\",\"a\""
#define IDS_17 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"

static struct row rows[] = {
    {BOTH, "temperature", {"0", "2"}, {"-0.1", "2.1", "\"1\"", "[]"}},
    {BOTH, "top_p", {"0", "1"}, {"-0.1", "1.1", "true", "{}"}},
    {BOTH, "min_p", {"0", "1"}, {"-0.1", "1.1", "\"\""}},
    {BOTH, "presence_penalty", {"-2", "2"}, {"-2.1", "2.1", "\"0\""}},
    {BOTH, "frequency_penalty", {"-2", "2"}, {"-2.1", "2.1", "\"0\""}},
    {BOTH, "repetition_penalty", {"0.1", "100"}, {"-1", "101", "\"1\""}},
    {BOTH, "top_k", {"-1", "4294967295"}, {"-2", "4294967296", "1.5"}},
    {BOTH, "seed", {"-9223372036854775808", "9223372036854775807"}, {"0.5", "\"1\"", "true"}},
    {BOTH, "max_tokens", {"1", "4294967295"}, {"0", "-1", "4294967296", "\"5\""}},
    {CHAT, "max_completion_tokens", {"1", "4294967295"}, {"0", "-1", "4294967296", "\"5\""}},
    {BOTH, "n", {"1", "16"}, {"0", "17", "1.5", "\"2\""}},
    {BOTH, "typical_p", {"1", "0.2"}, {"1.1", "-0.1", "\"1\""}},
    {BOTH, "epsilon_cutoff", {"0", "0.5"}, {"1.1", "-0.1", "\"1\""}},
    {BOTH, "eta_cutoff", {"0", "null"}, {"1.1", "-0.1", "[]"}},
    {BOTH, "no_repeat_ngram_size", {"0", "64"}, {"65", "-1", "1.5", "\"3\""}},
    {BOTH, "dry_multiplier", {"0", "null"}, {"0.8", "true"}},
    {BOTH, "top_h", {"1", "null"}, {"0.4", "true"}},
    {BOTH, "top_n_sigma", {"-1", "0"}, {"1", "0.1", "true"}},
    {BOTH, "repeat_penalty", {"1", "null"}, {"1.1", "true"}},
    {BOTH, "mirostat", {"0", "0.0"}, {"2", "-1"}},
    {BOTH, "xtc_probability", {"0", "null"}, {"0.5", "[]"}},
    {BOTH, "ignore_eos", {"true", "false"}, {"1", "\"yes\""}},
    {BOTH, "stream", {"true", "false"}, {"1", "\"yes\""}},
    {BOTH, "stream_options", {"{}", "{\"include_usage\": true}"}, {"1", "[]"}},
    {BOTH, "return_token_ids", {"true", "false"}, {"1"}},
    {BOTH, "stop", {"\"a\"", "[\"a\", \"b\"]"}, {"5", "[" STRING_17 "]", "[1]", "{}"}},
    {BOTH, "stop_token_ids", {"[]", "[4294967295]"}, {"5", "[-1]", "[" IDS_17 "]", "[\"a\"]"}},
    {BOTH, "priority", {"-2147483648", "2147483647"}, {"2147483648", "\"high\""}},
    {BOTH, "model", {"\"\"", "\"demo\""}, {"5", "[]", "\"demo\\u0000\""}},
    {BOTH, "cache_salt", {"\"\"", "\"salt\""}, {"5", "\"a\\u0000b\""}},
    {BOTH,
     "logit_bias",
     {"{}", "{\"5\": -1.5}"},
     {"[5]", "{\"a\": 1}", "{\"5\": \"1\"}", "{\"4294967296\": 1}"}},
    {BOTH, "allowed_token_ids", {"[]", "[0, 4294967295]"}, {"5", "[-1]", "[\"a\"]"}},
    {BOTH, "bad_words", {"[]", "[\"a\", \"b c\"]"}, {"\"a\"", "[1]"}},
    {BOTH, "include_stop_str_in_output", {"true", "false"}, {"1"}},
    {BOTH, "skip_special_tokens", {"true", "null"}, {"\"no\""}},
    {BOTH, "guided_json", {"\"\"", "{\"type\": \"object\"}"}, {"1", "[1]", "\"a\\u0000\""}},
    {BOTH, "guided_json_object", {"false", "true"}, {"1", "\"yes\""}},
    {BOTH, "guided_regex", {"null", "\"a+\""}, {"1", "[1]", "\"a\\u0000\""}},
    {BOTH, "guided_grammar", {"null", "\"start: A\""}, {"1", "{\"a\": 1}"}},
    {BOTH, "guided_choice", {"null", "[\"a\", \"\"]"}, {"[]", "\"a\"", "[1]", "[\"\\u0000\"]"}},
    {BOTH, "structured_outputs", {"{}", "{\"json\": {}}"}, {"1", "[1]", "\"a\""}},
    {BOTH, "reply_window", {"null", "4294967295"}, {"0", "-1", "4294967296", "\"1\""}},
    {BOTH, "min_tokens", {"null", "4294967295"}, {"-1", "4294967296", "\"1\""}},
    {BOTH,
     "response_format",
     {"{\"type\": \"text\"}", "{\"type\": \"json_object\"}"},
     {"{}", "1", "{\"type\": \"structural_tag\"}", "{\"type\": \"json_schema\"}"}},
    {BOTH, "tool_choice", {"\"auto\"", "\"none\""}, {"\"always\"", "{\"type\": \"function\"}"}},
    {COMPLETIONS, "tool_choice", {"null", "null"}, {"\"required\""}},
    {BOTH, "best_of", {"null", "1"}, {"2", "0", "\"1\""}},
    {COMPLETIONS, "suffix", {"null", "\"\""}, {"\"end\""}},
    {COMPLETIONS, "echo", {"true", "false"}, {"1"}},
    {COMPLETIONS, "logprobs", {"0", "5"}, {"-1", "6", "true"}},
    {COMPLETIONS, "add_special_tokens", {"true", "false"}, {"1"}},
    {CHAT, "logprobs", {"true", "false"}, {"1", "\"yes\""}},
    {CHAT, "top_logprobs", {"0", "null"}, {"1", "21", "-1", "true"}},
    {CHAT, "audio", {"null", "{}"}, {"{\"voice\": \"x\"}"}},
    {CHAT, "functions", {"null", "[]"}, {"[{\"name\": \"f\"}]"}},
    {CHAT, "function_call", {"\"auto\"", "\"none\""}, {"{\"name\": \"f\"}", "\"f\""}},
    {CHAT, "documents", {"[]", "[{\"text\": \"x\"}]"}, {"\"x\"", "[1]", "{}"}},
    {COMPLETIONS, "documents", {"null", "[]"}, {"[{\"text\": \"x\"}]"}},
    {BOTH,
     "modalities",
     {"null", "[\"text\"]"},
     {"[\"audio\"]", "[\"text\", \"audio\"]", "\"audio\"", "[1]"}},
    {BOTH, "truncate_prompt_tokens", {"null", "null"}, {"5", "-1"}},
    {BOTH, "use_beam_search", {"null", "false"}, {"1", "\"yes\""}},
    {BOTH, "beam_width", {"0", "16"}, {"17", "-1", "1.5", "\"4\""}},
    {BOTH, "length_penalty", {"-10", "10"}, {"-10.1", "10.1", "\"1\"", "true"}},
    {BOTH, "early_stopping", {"true", "\"never\""}, {"\"always\"", "1", "[]", "0"}},
    {BOTH, "prompt_embeds", {"null", "[]"}, {"\"gAJ9\"", "[\"gAJ9\"]"}},
    {BOTH, "logits_processors", {"null", "[]"}, {"[\"x\"]"}},
    {BOTH, "guided_whitespace_pattern", {"null", "\"\""}, {"\"[ ]?\""}},
    {BOTH, "regex", {"null", "\"\""}, {"\"a+\""}},
    {BOTH, "ebnf", {"null", "\"\""}, {"\"root ::= x\""}},
    {BOTH, "grammar", {"null", "\"\""}, {"\"root ::= x\""}},
    {BOTH, "json_schema", {"null", "\"\""}, {"\"{}\"", "{\"type\": \"object\"}"}},
};

static void expect_taken(const struct row *row, bool is_chat, const char *value)
{
    char body[400];
    snprintf(body, sizeof body, "{%s, \"%s\": %s}", is_chat ? MESSAGES : PROMPT, row->member,
             value);
    cr_expect(read_body(is_chat, body), "%s: %s", body, error.message);
}

static void expect_refused(const struct row *row, bool is_chat, const char *value)
{
    char body[400];
    snprintf(body, sizeof body, "{%s, \"%s\": %s}", is_chat ? MESSAGES : PROMPT, row->member,
             value);
    cr_expect_not(read_body(is_chat, body), "%s is taken", body);
    cr_expect_eq(error.code, 400);
    const size_t n = strlen(row->member); /* and the place in it */
    cr_expect(strncmp(error.param, row->member, n) == 0 && strchr("[.", error.param[n]), "%s: %s",
              body, error.message);
    cr_expect_eq(strncmp(error.message, row->member, n), 0, "%s", error.message);
}

static void check_row(const struct row *row, bool is_chat)
{
    for (int i = 0; i < 2; i++)
        expect_taken(row, is_chat, row->right[i]);
    for (int i = 0; i < 4 && row->wrong[i][0]; i++)
        expect_refused(row, is_chat, row->wrong[i]);
}

ParameterizedTestParameters(openai_request, members_at_and_beyond_their_bounds)
{
    return cr_make_param_array(struct row, rows, sizeof rows / sizeof *rows);
}

ParameterizedTest(struct row *row, openai_request, members_at_and_beyond_their_bounds)
{
    if (row->kinds & COMPLETIONS)
        check_row(row, false);
    if (row->kinds & CHAT)
        check_row(row, true);
}

static const struct {
    enum kinds kind;
    const char *member, *sentence;
} SENTENCES[] = {
    {BOTH, "\"stop_token_ids\": \"5\"",
     "stop_token_ids is a string; it must be an array of token ids"},
    {BOTH, "\"stop_token_ids\": [1, -1]", "stop_token_ids[1] is -1; it must be a token id"},
    {BOTH, "\"stop_token_ids\": [" IDS_17 "]",
     "stop_token_ids has 17 token ids; at most 16 are taken"},
    {BOTH, "\"allowed_token_ids\": [\"a\"]",
     "allowed_token_ids[0] is a string; it must be a token id"},
    {BOTH, "\"bad_words\": \"a\"", "bad_words is a string; it must be an array of strings"},
    {BOTH, "\"bad_words\": [1.5]", "bad_words[0] is 1.5; it must be a string"},
    {BOTH, "\"stop\": [\"a\", {}]", "stop[1] is an object; it must be a string"},
    {BOTH, "\"guided_choice\": \"a\"", "guided_choice is a string; it must be an array of texts"},
    {BOTH, "\"guided_choice\": []", "guided_choice has no texts; it must have one at least"},
    {BOTH, "\"guided_choice\": [7]", "guided_choice[0] is 7; it must be a text without U+0000"},
    {BOTH, "\"seed\": 9223372036854775808",
     "seed is 9.22337e+18; integers beyond 64 bits are not taken"},
    {BOTH, "\"response_format\": \"json\"", "response_format is a string; it must be an object"},
    {BOTH, "\"response_format\": {}",
     "response_format has no type; \"text\", \"json_object\" and \"json_schema\" are served"},
    {BOTH, "\"response_format\": {\"type\": \"xml\"}",
     "response_format is of type \"xml\"; \"text\", \"json_object\" and \"json_schema\" are "
     "served"},
    {BOTH, "\"structured_outputs\": {\"json\": {}, \"regex\": \"a\"}",
     "structured_outputs has two members that say what the reply must be"},
    {BOTH, "\"use_beam_search\": true",
     "n is 1; it must be 2 to 16 with use_beam_search, which searches with n beams; "
     "beam_width sets another number of them"},
    {BOTH, "\"use_beam_search\": true, \"n\": 1",
     "n is 1; it must be 2 to 16 with use_beam_search, which searches with n beams; "
     "beam_width sets another number of them"},
    {BOTH, "\"use_beam_search\": true, \"n\": 17", "n is 17; it must be 1 to 16"},
    {BOTH, "\"use_beam_search\": true, \"n\": 2, \"beam_width\": 1",
     "beam_width is 1; it must be 2 to 16 with use_beam_search"},
    {BOTH, "\"use_beam_search\": true, \"beam_width\": 0",
     "beam_width is 0; it must be 2 to 16 with use_beam_search"},
    {BOTH, "\"use_beam_search\": false, \"beam_width\": 4",
     "use_beam_search is false, and beam_width is 4, which asks for one"},
    {BOTH, "\"use_beam_search\": \"true\"",
     "use_beam_search is a string; it must be true or false"},
    {BOTH, "\"beam_width\": 17", "beam_width is 17; it must be 0 to 16"},
    {BOTH, "\"beam_width\": \"4\"", "beam_width is a string; it must be an integer"},
    {BOTH, "\"length_penalty\": 11", "length_penalty is 11; it must be -10 to 10"},
    {BOTH, "\"length_penalty\": \"1\"", "length_penalty is a string; it must be a number"},
    {BOTH, "\"early_stopping\": \"always\"",
     "early_stopping is a string; it must be true, false or \"never\""},
    {BOTH, "\"early_stopping\": 1",
     "early_stopping is an integer; it must be true, false or \"never\""},
    {BOTH, "\"use_beam_search\": true, \"n\": 2, \"best_of\": 4", "best_of over 1 is not served"},
    {CHAT, "\"tools\": \"f\"", "tools is a string; it must be an array of tools"},
    {CHAT, "\"tools\": [\"f\"]", "tools[0] is a string; it must be an object"},
    {CHAT, "\"messages\": [5]", "messages[0] is 5; it must be an object"},
};

Test(openai_request, errors_say_what_the_value_is)
{
    for (size_t i = 0; i < sizeof SENTENCES / sizeof *SENTENCES; i++) {
        const bool is_chat = SENTENCES[i].kind == CHAT;
        char body[400];
        snprintf(body, sizeof body, "{%s, %s}", is_chat ? MESSAGES : PROMPT, SENTENCES[i].member);
        cr_expect_not(read_body(is_chat, body), "%s", body);
        cr_expect_str_eq(error.message, SENTENCES[i].sentence);
    }
}

Test(openai_request, an_integer_beyond_64_bits_is_told_by_the_member_that_has_it)
{
    static const struct {
        const char *body, *param, *sentence;
    } ROWS[] = {
        {"\"temperature\": 1e30, \"seed\": -9223372036854775809", "seed", "seed is -9.22337e+18; "},
        {"\"seed\":99999999999999999999,\"top_k\": 1e30", "seed", "seed is 1e+20; "},
        {"\"temperature\": 1e30, \"tools\": [{\"a\": [1, 18446744073709551616]}]", "tools",
         "tools has 1.84467e+19 in it; "},
        {"\"seed\": 99999999999999999999, \"n\": 99999999999999999999", "seed", "seed is 1e+20; "},
        {"\"seed\": 1e99999999999999999999", "", "the body is not JSON: "},
        {"\"seed\": 99999999999999999999, \"n\": ", "", "the body is not JSON: "},
        {"\"seed\": 99999999999999999999, \"seed\": 1", "", "the body is not JSON: "},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        char body[400];
        snprintf(body, sizeof body, "{%s, %s}", PROMPT, ROWS[i].body);
        cr_expect_not(read_body(false, body), "%s", body);
        cr_expect_str_eq(error.param, ROWS[i].param, "%s: %s", body, error.message);
        cr_expect_eq(strncmp(error.message, ROWS[i].sentence, strlen(ROWS[i].sentence)), 0,
                     "%s: %s", body, error.message);
    }
}

Test(openai_request, a_bias_has_the_name_that_the_body_gave_it)
{
    struct openai_error told;
    cr_assert(read_body(false, "{" PROMPT ", \"logit_bias\": {\"5\": 101}}"));
    openai_error_set(&told, 400, NULL, "logit_bias[0].bias", "%s", "logit_bias[0].bias is 101");
    openai_request_rename(&request, &told);
    cr_expect_str_eq(told.param, "logit_bias.5");
    cr_expect_str_eq(told.message, "logit_bias.5 is 101");
}

Test(openai_request, too_many_tokens_are_told_by_the_name_that_asked_for_them)
{
    struct openai_error told;
    cr_assert(read_body(true, "{" MESSAGES ", \"max_completion_tokens\": 5000}"));
    openai_error_set(&told, 400, "context_length_exceeded", "max_tokens",
                     "max_tokens is 5000, and");
    openai_request_rename(&request, &told);
    openai_error_explain(&told);
    cr_expect_str_eq(told.param, "max_completion_tokens");
    cr_expect_str_eq(told.message, "max_completion_tokens is 5000, and");
}

/* ---- what reaches the router ---- */

Test(openai_request, values_reach_the_message)
{
    cr_assert(
        read_body(true,
                  "{" MESSAGES ", \"temperature\": 0.5, \"seed\": -1, \"top_k\": -1, \"n\": 3,"
                  "\"max_tokens\": 5, \"max_completion_tokens\": 7, \"reply_window\": 9, \"stop\": "
                  "\"a\\u0000b\","
                  "\"logprobs\": true, \"top_logprobs\": 4, \"stream\": true, \"priority\": -3,"
                  "\"stream_options\": {\"include_usage\": true}, \"who\": [\"knows\"]}"),
        "%s", error.message);
    const Kvferry__V1__SamplingParams *sampling = &request.sampling;
    cr_expect_float_eq(sampling->temperature, 0.5f, 0);
    cr_expect_eq(sampling->seed, UINT64_MAX);
    cr_expect_eq(sampling->top_k, 0);
    cr_expect_eq(sampling->n, 3);
    cr_expect_eq(sampling->max_tokens, 7, "max_completion_tokens wins");
    cr_expect_eq(sampling->reply_window, 9);
    cr_expect_eq(sampling->reply_window_presence_case,
                 KVFERRY__V1__SAMPLING_PARAMS__REPLY_WINDOW_PRESENCE_REPLY_WINDOW);
    cr_expect_eq(sampling->n_stop, 1);
    cr_expect_eq(sampling->stop[0].len, 3);
    cr_expect_eq(memcmp(sampling->stop[0].data, "a\0b", 3), 0);
    cr_expect_eq(sampling->logprobs, 4);
    cr_expect_eq(request.message.priority, -3);
    cr_expect(request.is_stream && request.include_usage && request.has_logprobs);
    cr_expect_eq(request.message.prompt_case, KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT);
}

Test(openai_request, completions_have_a_default_length_and_chat_has_none)
{
    cr_assert(read_body(false, "{" PROMPT "}"));
    cr_expect_eq(request.sampling.max_tokens, 16);
    cr_assert(read_body(true, "{" MESSAGES "}"));
    cr_expect_eq(request.sampling.max_tokens_presence_case,
                 KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE__NOT_SET);
    cr_assert(read_body(false, "{" PROMPT ", \"logprobs\": 0}"));
    cr_expect_eq(request.sampling.logprobs, 1);
    cr_expect_eq(request.n_top_logprobs, 0);
}

/* ---- prompts ---- */

Test(openai_request, prompts_of_every_form)
{
    cr_assert(read_body(false, "{\"prompt\": [\"one\", [4, 5, 6], \"\"], \"n\": 2}"));
    cr_assert_eq(request.n_prompts, 3);
    cr_assert(openai_request_set_prompt(&request, 0, &error));
    cr_expect_eq(request.message.prompt_case, KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT);
    cr_expect_eq(memcmp(request.message.text.data, "one", 3), 0);
    cr_assert(openai_request_set_prompt(&request, 1, &error));
    cr_expect_eq(request.message.prompt_case, KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS);
    cr_expect_eq(request.message.token_ids->n_ids, 3);
    cr_expect_eq(request.message.token_ids->ids[2], 6);
    cr_assert(read_body(false, "{\"prompt\": [7, 8]}"));
    cr_assert_eq(request.n_prompts, 1);
    cr_assert(openai_request_set_prompt(&request, 0, &error));
    cr_expect_eq(request.message.token_ids->ids[1], 8);
}

static void read_prompts(size_t n, unsigned n_choices)
{
    char body[1024];
    size_t at = (size_t)snprintf(body, sizeof body, "{\"n\": %u, \"prompt\": [", n_choices);
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(body + at, sizeof body - at, "%s\"x\"", i ? "," : "");
    snprintf(body + at, sizeof body - at, "]}");
    (void)read_body(false, body);
}

Test(openai_request, prompts_and_choices_are_bounded)
{
    read_prompts(OPENAI_PROMPTS_MAX, 2);
    cr_expect_eq(error.code, 0, "%s", error.message);
    read_prompts(OPENAI_PROMPTS_MAX + 1, 1);
    cr_expect_str_eq(error.message, "prompt has 65 prompts; 1 to 64 are taken");
    read_prompts(OPENAI_PROMPTS_MAX, 3);
    cr_expect_str_eq(error.message, "prompt and n make 192 choices; at most 128 are made");
    read_prompts(0, 1);
    cr_expect_str_eq(error.message, "prompt has 0 prompts; 1 to 64 are taken");
}

Test(openai_request, prompts_that_are_none_are_refused)
{
    static const char *const WRONG[] = {"{}", "{\"prompt\": null}", "{\"prompt\": 5}",
                                        "{\"prompt\": {}}"};
    static const char *const LATER[] = {"{\"prompt\": [[]]}",   "{\"prompt\": [1, \"a\"]}",
                                        "{\"prompt\": [-1]}",   "{\"prompt\": [4294967296]}",
                                        "{\"prompt\": [true]}", "{\"prompt\": [1, 2.5]}"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        cr_expect_not(read_body(false, WRONG[i]), "%s", WRONG[i]);
        cr_expect_str_eq(error.param, "prompt");
    }
    for (size_t i = 0; i < sizeof LATER / sizeof *LATER; i++) {
        cr_assert(read_body(false, LATER[i]), "%s", LATER[i]);
        cr_expect_not(openai_request_set_prompt(&request, 0, &error), "%s", LATER[i]);
        cr_expect_eq(strncmp(error.param, "prompt[", 7), 0, "%s", error.param);
        cr_expect_eq(error.code, 400);
    }
}

/* Of the prompt's log-probabilities: what is asked of the router, and what the reply shows. */
struct scored_row {
    bool is_chat;
    const char *members;
    int asked; /* -1: none */
    uint32_t shown;
    bool is_echo_alone;
    const char *refused; /* the member's name; NULL: none */
};

static const struct scored_row SCORED[] = {
    {false, "\"logprobs\": 3", -1, 0, false, NULL},
    {false, "\"echo\": true", -1, 0, false, NULL},
    {false, "\"echo\": false, \"logprobs\": 3", -1, 0, false, NULL},
    {false, "\"echo\": true, \"logprobs\": 3", 3, 0, false, NULL},
    {false, "\"echo\": true, \"logprobs\": 0", 0, 0, false, NULL},
    {false, "\"echo\": true, \"logprobs\": 1, \"stream\": true", 1, 0, false, NULL},
    {false, "\"echo\": true, \"logprobs\": 1, \"max_tokens\": 0", 1, 0, true, NULL},
    {false, "\"echo\": true, \"max_tokens\": 0", -1, 0, true, NULL},
    {false, "\"prompt_logprobs\": null", -1, 0, false, NULL},
    {false, "\"prompt_logprobs\": 0", 0, 0, false, NULL},
    {false, "\"prompt_logprobs\": 20", 20, 20, false, NULL},
    {true, "\"prompt_logprobs\": 2", 2, 2, false, NULL},
    {false, "\"prompt_logprobs\": 2, \"echo\": true, \"logprobs\": 5", 5, 2, false, NULL},
    {false, "\"prompt_logprobs\": 7, \"echo\": true, \"logprobs\": 5", 7, 7, false, NULL},
    {false, "\"prompt_logprobs\": 21", 0, 0, false, "prompt_logprobs"},
    {true, "\"prompt_logprobs\": -1", 0, 0, false, "prompt_logprobs"},
    {false, "\"prompt_logprobs\": true", 0, 0, false, "prompt_logprobs"},
    {false, "\"prompt_logprobs\": 1, \"stream\": true", 0, 0, false, "prompt_logprobs"},
    {false, "\"max_tokens\": 0", 0, 0, false, "max_tokens"},
    {false, "\"echo\": false, \"max_tokens\": 0", 0, 0, false, "max_tokens"},
    {true, "\"echo\": true, \"max_tokens\": 0", 0, 0, false, "max_tokens"},
};

static void expect_scored(const struct scored_row *row)
{
    const Kvferry__V1__SamplingParams *sampling = &request.sampling;
    const bool asks = sampling->prompt_logprobs_presence_case ==
                      KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS;
    cr_expect_eq(asks, row->asked >= 0, "%s", row->members);
    if (asks)
        cr_expect_eq(sampling->prompt_logprobs, (uint32_t)row->asked, "%s", row->members);
    cr_expect_eq(request.has_prompt_logprobs,
                 strstr(row->members, "prompt_logprobs\": ") && !strstr(row->members, "null"));
    cr_expect_eq(request.n_prompt_logprobs, row->shown, "%s", row->members);
    cr_expect_eq(request.is_echo_alone, row->is_echo_alone, "%s", row->members);
    if (row->is_echo_alone)
        cr_expect_eq(sampling->max_tokens, 1, "a worker draws one at least");
}

Test(openai_request, scores_of_the_prompt_are_asked_for_with_echo_or_by_name)
{
    for (size_t i = 0; i < sizeof SCORED / sizeof *SCORED; i++) {
        const struct scored_row *row = &SCORED[i];
        char body[256];
        snprintf(body, sizeof body, "{%s, %s}", row->is_chat ? MESSAGES : PROMPT, row->members);
        const bool is_read = read_body(row->is_chat, body);
        cr_expect_eq(is_read, !row->refused, "%s: %s", body, is_read ? "" : error.message);
        if (is_read)
            expect_scored(row);
        else
            cr_expect_str_eq(error.param, row->refused ? row->refused : "", "%s", body);
    }
}

Test(openai_request, bodies_that_are_no_object_are_refused)
{
    static const char *const WRONG[] = {
        "", "{", "[]", "null", "5", "{} {}", "\xff", "{\"a\": \"\\ud800\"}", "{\"seed\": 1e999}"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        cr_expect_not(read_body(i % 2, WRONG[i]), "%s", WRONG[i]);
        cr_expect_eq(error.code, 400);
        cr_expect_eq(strncmp(error.message, "the body is", 11), 0, "%s", error.message);
    }
}

Test(openai_request, echo_has_the_text_of_token_ids_too)
{
    struct error why = {""};
    struct tokenizer *tokenizer;
    size_t bytes;
    cr_assert_eq(tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", &why, &tokenizer), STATUS_OK,
                 "%s", why.text);
    uint32_t ids[8];
    struct token_buffer tokens = {.ids = ids, .ids_max = 8};
    const struct encode_input input = {.text = "And God", .text_bytes = 7};
    cr_assert_eq(tokenizer_encode(tokenizer, &input, &tokens, &why), STATUS_OK, "%s", why.text);
    char body[200];
    size_t at = (size_t)snprintf(body, sizeof body, "{\"prompt\": [\"as it is\", [2046");
    for (size_t i = 0; i < tokens.n_ids; i++)
        at += (size_t)snprintf(body + at, sizeof body - at, ", %u", ids[i]);
    snprintf(body + at, sizeof body - at, ", 4000000000]]}");
    cr_assert(read_body(false, body), "%s", error.message);
    char *text = openai_request_prompt_text(&request, 0, tokenizer, &bytes);
    cr_expect(bytes == 8 && memcmp(text, "as it is", 8) == 0);
    free(text);
    text = openai_request_prompt_text(&request, 1, tokenizer, &bytes);
    cr_expect(bytes == 7 && memcmp(text, "And God", 7) == 0, "%.*s", (int)bytes, text);
    free(text);
    tokenizer_destroy(tokenizer);
}

/* ---- names ---- */

static const struct {
    bool is_chat;
    const char *stop, *field, *sentence, *param, *message;
} NAMES[] = {
    {false, "\"a\"", "text", "text is empty", "prompt", "prompt is empty"},
    {true, "\"a\"", "text", "text is empty", "messages", "messages is empty"},
    {false, "\"a\"", "token_ids", "token_ids is empty", "prompt", "prompt is empty"},
    {false, "\"a\"", "token_ids.ids[4]", "token_ids.ids[4] is 9", "prompt[4]", "prompt[4] is 9"},
    {true, "\"a\"", "chat.messages[2]", "chat.messages[2] is x", "messages[2]", "messages[2] is x"},
    {true, "\"a\"", "chat.messages[2].more", "chat.messages[2].more is x", "messages[2]",
     "messages[2] is x"},
    {true, "\"a\"", "chat", "chat has 5 bytes", "messages", "messages has 5 bytes"},
    {true, "\"a\"", "chat.template_arguments", "chat.template_arguments is x",
     "chat_template_kwargs", "chat_template_kwargs is x"},
    {true, "\"a\"", "chat.template_arguments.tools", "chat.template_arguments.tools is x",
     "chat_template_kwargs.tools", "chat_template_kwargs.tools is x"},
    {true, "\"a\"", "chat", "chat_template_kwargs is x", "messages", "chat_template_kwargs is x"},
    {true, "\"a\"", "prompt", "prompt of 9 tokens", "messages", "prompt of 9 tokens"},
    {false, "\"a\"", "stop[0]", "stop[0] is empty", "stop", "stop is empty"},
    {false, "[\"a\"]", "stop[0]", "stop[0] is empty", "stop[0]", "stop[0] is empty"},
    {false, "\"a\"", "top_p", "top_p is 5", "top_p", "top_p is 5"},
};

Test(openai_request, fields_of_the_router_have_the_names_of_the_body)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char body[200];
        struct openai_error told;
        snprintf(body, sizeof body, "{%s, \"stop\": %s}", NAMES[i].is_chat ? MESSAGES : PROMPT,
                 NAMES[i].stop);
        cr_assert(read_body(NAMES[i].is_chat, body));
        openai_error_set(&told, 400, NULL, NAMES[i].field, "%s", NAMES[i].sentence);
        openai_request_rename(&request, &told);
        cr_expect_str_eq(told.param, NAMES[i].param);
        cr_expect_str_eq(told.message, NAMES[i].message);
    }
}
