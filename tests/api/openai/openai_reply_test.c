/* openai_reply: chunks and whole replies are the JSON that OpenAI's clients read. */
#include "api/openai/openai_reply.h"
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tokenizer *tokenizer;
static struct reply_kind kind;
static uint32_t ids[8];
static struct token_buffer tokens = {.ids = ids, .ids_max = 8};
static struct token_logprobs logprobs[8];

static void load(void)
{
    struct error error = {""};
    static const char TEXT[] = " And God";
    const struct encode_input input = {.text = TEXT, .text_bytes = sizeof TEXT - 1};
    cr_assert_eq(tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", &error, &tokenizer), STATUS_OK,
                 "%s", error.text);
    cr_assert_eq(tokenizer_encode(tokenizer, &input, &tokens, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(tokens.n_ids, 2, "of the demo model");
    kind = (struct reply_kind){.id = "id", .model = "m", .created = 7, .tokenizer = tokenizer};
}

static void unload(void)
{
    tokenizer_destroy(tokenizer);
}

TestSuite(openai_reply, .init = load, .fini = unload);

static void expect(json_t *body, const char *wanted)
{
    char *text = json_dumps(body, JSON_COMPACT);
    cr_assert_not_null(text);
    cr_expect_str_eq(text, wanted);
    free(text);
    json_decref(body);
}

#define CHUNK_OF(object, choice)                                                                   \
    "{\"id\":\"id\",\"object\":\"" object "\",\"created\":7,\"model\":\"m\",\"choices\":[" choice  \
    "]}"
#define CHUNK(choice) CHUNK_OF("chat.completion.chunk", choice)
#define TEXT(choice)  CHUNK_OF("text_completion", choice)

Test(openai_reply, chunks_of_chat)
{
    kind.is_chat = true;
    expect(reply_chunk(&kind, 0, true, "", 0, NULL, NULL, NULL),
           CHUNK("{\"index\":0,\"logprobs\":null,\"finish_reason\":null,\"delta\":{\"role\":"
                 "\"assistant\",\"content\":\"\"}}"));
    expect(reply_chunk(&kind, 2, false, "a\0b", 3, NULL, NULL, NULL),
           CHUNK("{\"index\":2,\"logprobs\":null,\"finish_reason\":null,\"delta\":{\"content\":"
                 "\"a\\u0000b\"}}"));
    const struct reply_end end = {.matched = MATCHED_TOKEN, .stop_token_id = 5};
    expect(reply_chunk(&kind, 0, false, "", 0, NULL, "stop", &end),
           CHUNK("{\"index\":0,\"logprobs\":null,\"finish_reason\":\"stop\",\"delta\":{},\"stop_"
                 "reason\":5}"));
}

Test(openai_reply, chunks_of_completions)
{
    expect(reply_chunk(&kind, 0, false, "light", 5, NULL, NULL, NULL),
           TEXT("{\"index\":0,\"logprobs\":null,\"finish_reason\":null,\"text\":\"light\"}"));
    const struct reply_end end = {.matched = MATCHED_STRING, .stop_string = {2, (uint8_t *)"ab"}};
    expect(reply_chunk(&kind, 1, false, "", 0, NULL, "stop", &end),
           TEXT("{\"index\":1,\"logprobs\":null,\"finish_reason\":\"stop\",\"text\":\"\",\"stop_"
                "reason\":\"ab\"}"));
}

Test(openai_reply, usage_is_null_until_its_own_chunk)
{
    static const struct reply_usage USAGE = {
        .prompt_tokens = 5, .generated_tokens = 3, .cached_tokens = 4};
    kind.include_usage = true;
    expect(reply_chunk(&kind, 0, false, "x", 1, NULL, NULL, NULL),
           "{\"id\":\"id\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\","
           "\"choices\":[{\"index\":0,\"logprobs\":"
           "null,\"finish_reason\":null,\"text\":\"x\"}],\"usage\":null}");
    expect(reply_usage_chunk(&kind, &USAGE),
           "{\"id\":\"id\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\","
           "\"choices\":[],\"usage\":{"
           "\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8,\"prompt_tokens_"
           "details\":{\"cached_tokens\":4}}}");
}

static struct reply_tokens two_tokens(uint64_t *offset)
{
    logprobs[0] = (struct token_logprobs){
        .logprob = -0.5f, .n_top = 2, .top_ids = {ids[0], ids[1]}, .top_logprobs = {-0.5f, -1.5f}};
    logprobs[1] = (struct token_logprobs){
        .logprob = -INFINITY, .n_top = 1, .top_ids = {ids[0]}, .top_logprobs = {-0.25f}};
    kind.has_logprobs = true;
    kind.n_top_logprobs = 1;
    return (struct reply_tokens){.ids = ids, .logprobs = logprobs, .n = 2, .text_offset = offset};
}

Test(openai_reply, logprobs_of_chat_have_bytes)
{
    uint64_t offset = 0;
    const struct reply_tokens two = two_tokens(&offset);
    kind.is_chat = true;
    expect(
        reply_chunk(&kind, 0, false, " And God", 8, &two, NULL, NULL),
        CHUNK(
            "{\"index\":0,\"logprobs\":{\"content\":["
            "{\"token\":\" And\",\"logprob\":-0.5,\"bytes\":[32,65,110,100],\"top_logprobs\":["
            "{\"token\":\" And\",\"logprob\":-0.5,\"bytes\":[32,65,110,100]}]},"
            "{\"token\":\" God\",\"logprob\":-9999.0,\"bytes\":[32,71,111,100],\"top_logprobs\":["
            "{\"token\":\" And\",\"logprob\":-0.25,\"bytes\":[32,65,110,100]}]}],\"refusal\":null},"
            "\"finish_reason\":null,\"delta\":{\"content\":\" And God\"}}"));
}

Test(openai_reply, logprobs_of_completions_have_offsets_that_go_on)
{
    uint64_t offset = 10;
    const struct reply_tokens two = two_tokens(&offset);
    kind.return_token_ids = true;
    json_t *body = reply_chunk(&kind, 0, false, " And God", 8, &two, NULL, NULL);
    json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    cr_expect_eq(json_array_size(json_object_get(choice, "token_ids")), 2);
    expect(
        json_incref(json_object_get(choice, "logprobs")),
        "{\"tokens\":[\" And\",\" "
        "God\"],\"token_logprobs\":[-0.5,-9999.0],\"top_logprobs\":[{\" And\":-0.5},{\" And\":-0."
        "25}],"
        "\"text_offset\":[10,14]}");
    cr_expect_eq(offset, 18);
    json_decref(body);
}

/* " And", " God": the first has no log-probability, the second is not the likeliest. */
static void two_scores(struct collected_scores *scores)
{
    const struct token_logprobs rows[] = {
        {.logprob = 0},
        {.logprob = -2, .n_top = 2, .top_ids = {ids[0], ids[1]}, .top_logprobs = {-0.5f, -2}}};
    *scores = (struct collected_scores){.n_top = 2};
    cr_assert_eq(collected_scores_add(scores, ids,
                                      &(struct prompt_scores){.n = 2, .logprobs = rows}, SIZE_MAX),
                 STATUS_OK);
}

Test(openai_reply, of_an_echo_the_prompt_has_logprobs_and_offsets_before_the_reply)
{
    uint64_t offset = 0;
    struct collected_scores scores;
    struct reply_tokens two = two_tokens(&offset);
    two_scores(&scores);
    two.prompt = &scores;
    json_t *body = reply_chunk(&kind, 0, false, " And God And God", 16, &two, NULL, NULL);
    json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    expect(json_incref(json_object_get(choice, "logprobs")),
           "{\"tokens\":[\" And\",\" God\",\" And\",\" God\"],"
           "\"token_logprobs\":[null,-2.0,-0.5,-9999.0],"
           "\"top_logprobs\":[null,{\" And\":-0.5},{\" And\":-0.5},{\" And\":-0.25}],"
           "\"text_offset\":[0,4,8,12]}");
    json_decref(body);

    const struct reply_prompt prompt = {
        .text = " And God", .bytes = 8, .scores = &scores, .is_echo = true};
    const struct collected nothing = {0};
    choice = reply_choice(&kind, 0, &prompt, &nothing,
                          KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH);
    expect(choice, "{\"index\":0,\"logprobs\":{\"tokens\":[\" And\",\" God\"],"
                   "\"token_logprobs\":[null,-2.0],\"top_logprobs\":[null,{\" And\":-0.5}],"
                   "\"text_offset\":[0,4]},\"finish_reason\":\"length\",\"text\":\" And God\"}");
    collected_scores_finish(&scores);
}

Test(openai_reply, prompt_logprobs_are_by_id_with_ranks)
{
    struct collected_scores scores;
    char wanted[256], own[256];
    two_scores(&scores);
    kind.n_prompt_logprobs = 2;
    snprintf(wanted, sizeof wanted,
             "[null,{\"%u\":{\"logprob\":-2.0,\"rank\":2,\"decoded_token\":\" God\"},"
             "\"%u\":{\"logprob\":-0.5,\"rank\":1,\"decoded_token\":\" And\"}}]",
             ids[1], ids[0]);
    expect(reply_prompt_logprobs(&kind, &scores), wanted);
    kind.n_prompt_logprobs = 0;
    snprintf(own, sizeof own,
             "[null,{\"%u\":{\"logprob\":-2.0,\"rank\":2,\"decoded_token\":\" God\"}}]", ids[1]);
    expect(reply_prompt_logprobs(&kind, &scores), own);
    collected_scores_finish(&scores);

    const struct token_logprobs rows[2] = {{0}, {.logprob = -3}};
    cr_assert_eq(collected_scores_add(&scores, ids,
                                      &(struct prompt_scores){.n = 2, .logprobs = rows}, SIZE_MAX),
                 STATUS_OK);
    snprintf(own, sizeof own,
             "[null,{\"%u\":{\"logprob\":-3.0,\"rank\":null,\"decoded_token\":\" God\"}}]", ids[1]);
    expect(reply_prompt_logprobs(&kind, &scores), own);
    collected_scores_finish(&scores);
}

Test(openai_reply, a_token_beyond_the_tokenizer_has_no_text)
{
    uint64_t offset = 0;
    struct reply_tokens one = two_tokens(&offset);
    const uint32_t padding = 4000000000u;
    one.ids = &padding;
    one.n = 1;
    logprobs[0].n_top = 0;
    kind.is_chat = true;
    json_t *body = reply_chunk(&kind, 0, false, "", 0, &one, NULL, NULL);
    json_t *choice = json_array_get(json_object_get(body, "choices"), 0);
    expect(json_incref(json_object_get(choice, "logprobs")),
           "{\"content\":[{\"token\":\"\",\"logprob\":-0.5,\"bytes\":[],\"top_logprobs\":[]}],"
           "\"refusal\":null}");
    json_decref(body);
}

Test(openai_reply, whole_replies)
{
    static const struct reply_usage USAGE = {.prompt_tokens = 2, .generated_tokens = 1};
    struct collected collected = {0};
    cr_assert_eq(collected_add_text(&collected, "light", 5, 100), STATUS_OK);
    const struct reply_prompt let = {.text = "Let ", .bytes = 4, .is_echo = true},
                              none = {.text = ""};
    json_t *one = reply_choice(&kind, 0, &let, &collected,
                               KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH);
    expect(reply_whole(&kind, json_pack("[o]", one), &USAGE),
           "{\"id\":\"id\",\"object\":\"text_completion\",\"created\":7,\"model\":\"m\","
           "\"choices\":[{\"index\":0,\"logprobs\":"
           "null,\"finish_reason\":\"length\",\"text\":\"Let "
           "light\"}],\"usage\":{\"prompt_tokens\":2,\"completion_tokens\":1,"
           "\"total_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
    kind.is_chat = true;
    one = reply_choice(&kind, 1, &none, &collected, KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP);
    expect(one, "{\"index\":1,\"logprobs\":null,\"finish_reason\":\"stop\",\"message\":{\"role\":"
                "\"assistant\",\"content\":"
                "\"light\",\"refusal\":null}}");
    collected_finish(&collected);
}
