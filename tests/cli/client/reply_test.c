/* reply: messages of several choices in any order become whole choices, within the bound. */
#include "cli/client/reply.h"

#include <criterion/criterion.h>
#include <string.h>

static struct reply reply;
static struct error error;

static enum status take(uint32_t index, const char *text, uint32_t id, bool is_end)
{
    Kvferry__V1__TokenLogprob top = KVFERRY__V1__TOKEN_LOGPROB__INIT, *tops[] = {&top};
    Kvferry__V1__TokenLogprobs logprobs = KVFERRY__V1__TOKEN_LOGPROBS__INIT, *rows[] = {&logprobs};
    Kvferry__V1__Usage usage = KVFERRY__V1__USAGE__INIT;
    Kvferry__V1__GenerateResponse message = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    top.token_id = id + 1;
    top.logprob = -0.5f;
    logprobs.logprob = -1.f;
    logprobs.top = tops;
    logprobs.n_top = 1;
    message.index = index;
    message.text = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
    message.token_ids = &id;
    message.n_token_ids = 1;
    message.logprobs = rows;
    message.n_logprobs = 1;
    usage.generated_tokens = 2;
    if (is_end) {
        message.finish_reason = KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP;
        message.matched_stop_case = KVFERRY__V1__GENERATE_RESPONSE__MATCHED_STOP_STOP_STRING;
        message.stop_string = (ProtobufCBinaryData){3, (uint8_t *)"END"};
        message.usage = &usage;
    }
    return reply_take(&reply, &message, &error);
}

Test(reply, choices_are_put_together)
{
    reply_init(&reply, 2, 1 << 20);
    cr_assert_eq(take(1, "c", 30, false), STATUS_OK);
    cr_assert_eq(take(0, "a", 10, false), STATUS_OK);
    cr_assert_eq(take(1, "d", 40, true), STATUS_OK);
    const struct reply_choice *first = &reply.choices[0], *second = &reply.choices[1];
    cr_expect_not(first->has_ended);
    cr_expect(second->has_ended);
    cr_expect_eq(second->n_text, 2);
    cr_expect_arr_eq(second->text, "cd", 2);
    cr_expect_eq(second->n_tokens, 2);
    cr_expect_eq(second->tokens[1].id, 40);
    cr_expect_eq(second->tops[second->tokens[1].first_top].id, 41);
    cr_expect_eq(second->tops[second->tokens[1].first_top].logprob, -0.5f);
    cr_expect_eq(second->generated_tokens, 2);
    cr_expect_eq(second->n_stop_text, 3);
    cr_expect_arr_eq(second->stop_text, "END", 3);
    cr_expect_eq(take(2, "x", 1, false), STATUS_CORRUPT);
    cr_expect(strstr(error.text, "index 2, but 2 choices"), "%s", error.text);
    reply_finish(&reply);
}

Test(reply, of_a_prompt_all_but_the_first_token_have_a_logprob)
{
    Kvferry__V1__TokenLogprob top = KVFERRY__V1__TOKEN_LOGPROB__INIT, *tops[] = {&top};
    Kvferry__V1__TokenLogprobs score = KVFERRY__V1__TOKEN_LOGPROBS__INIT, *rows[] = {&score};
    Kvferry__V1__GenerateResponse message = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    reply_init(&reply, 2, 1 << 20);
    message.prompt_logprobs = rows;
    message.n_prompt_logprobs = 1;
    score.token_id = 7;
    cr_assert_eq(reply_take(&reply, &message, &error), STATUS_OK);
    score.token_id = 8;
    score.logprob = -2.5f;
    score.top = tops;
    score.n_top = 1;
    top.token_id = 9;
    top.logprob = -0.5f;
    cr_assert_eq(reply_take(&reply, &message, &error), STATUS_OK);
    cr_assert_eq(take(0, "a", 10, false), STATUS_OK);

    const struct reply_choice *prompt = &reply.prompt;
    cr_assert(prompt->n_tokens == 2 && prompt->n_tops == 1);
    cr_expect(prompt->tokens[0].id == 7 && !prompt->tokens[0].has_logprob);
    cr_expect(prompt->tokens[1].id == 8 && prompt->tokens[1].logprob == -2.5f);
    cr_expect(prompt->tokens[1].n_top == 1 && prompt->tops[0].id == 9);
    cr_expect_eq(reply.choices[0].n_tokens, 1);
    reply_finish(&reply);
}

Test(reply, memory_is_bounded)
{
    enum status status = STATUS_OK;
    uint32_t n = 0;
    reply_init(&reply, 1, 16384);
    while (status == STATUS_OK && n++ < 100000)
        status = take(0, "some text", n, false);
    cr_expect_eq(status, STATUS_REPLY_TOO_LONG);
    cr_expect(strstr(error.text, "16384 bytes (--answer-bytes-max)"), "%s", error.text);
    cr_expect_leq(reply.bytes, 16384);
    cr_expect_gt(n, 100);
    reply_finish(&reply);
}
