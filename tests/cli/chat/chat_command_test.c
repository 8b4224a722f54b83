/* chat_command: each command does what its help says to the messages and the parameters, and a wrong one changes nothing. */
#include "cli/chat/chat.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct chat chat;
static struct error error;
static bool ends;

static void begin(void)
{
    memset(&chat, 0, sizeof chat);
    kvferry__v1__sampling_params__init(&chat.sampling.params);
    cr_assert_eq(conversation_init(&chat.conversation, 16), STATUS_OK);
    cr_assert_eq(conversation_add(&chat.conversation, "user", "hello", 5, &error), STATUS_OK);
}

static void end(void)
{
    conversation_finish(&chat.conversation);
}

TestSuite(chat_command, .init = begin, .fini = end);

static enum status run(const char *line)
{
    char copy[200];
    snprintf(copy, sizeof copy, "%s", line);
    error.text[0] = '\0';
    ends = false;
    return chat_command_run(&chat, copy, &ends, &error);
}

static void expect_refused(const char *line, const char *said)
{
    cr_expect_neq(run(line), STATUS_OK, "%s", line);
    cr_expect(strstr(error.text, said), "\"%s\" is not in: %s", said, error.text);
    cr_expect_not(ends);
}

Test(chat_command, set_takes_every_sampling_parameter_within_its_bounds)
{
    const Kvferry__V1__SamplingParams *params = &chat.sampling.params;
    cr_assert_eq(run("/set temperature 0.5"), STATUS_OK, "%s", error.text);
    cr_assert_eq(run("/set max-tokens  7 "), STATUS_OK, "%s", error.text);
    cr_assert_eq(run("/set seed 18446744073709551615"), STATUS_OK, "%s", error.text);
    cr_assert_eq(run("/set top_k 3"), STATUS_OK);
    cr_assert_eq(run("/set top_p 0.25"), STATUS_OK);
    cr_assert_eq(run("/set min_p 0.125"), STATUS_OK);
    cr_assert_eq(run("/set repetition_penalty 2"), STATUS_OK);
    cr_assert_eq(run("/set presence_penalty -1"), STATUS_OK);
    cr_assert_eq(run("/set frequency_penalty 1"), STATUS_OK);
    cr_assert_eq(run("/set ignore_eos yes"), STATUS_OK);
    cr_expect_eq(params->temperature, 0.5f);
    cr_expect_eq(params->temperature_presence_case,
                 KVFERRY__V1__SAMPLING_PARAMS__TEMPERATURE_PRESENCE_TEMPERATURE);
    cr_expect_eq(params->max_tokens, 7);
    cr_expect_eq(params->seed, UINT64_MAX);
    cr_expect_eq(params->top_k, 3);
    cr_expect_eq(params->top_p, 0.25f);
    cr_expect_eq(params->min_p, 0.125f);
    cr_expect_eq(params->repetition_penalty, 2.f);
    cr_expect_eq(params->presence_penalty, -1.f);
    cr_expect_eq(params->frequency_penalty, 1.f);
    cr_expect(params->ignore_eos);
    expect_refused("/set temperature 101", "temperature");
    expect_refused("/set temperature warm", "\"warm\"");
    expect_refused("/set top_k -1", "top_k");
    expect_refused("/set temperature", "/set temperature needs a value");
    expect_refused("/set deadline_ms 5", "\"deadline_ms\" is no sampling parameter");
    expect_refused("/set stop x", "\"stop\" is no sampling parameter");
    cr_expect_eq(params->temperature, 0.5f);
    cr_expect_eq(params->top_k, 3);
}

Test(chat_command, a_system_message_is_set_and_removed)
{
    cr_assert_eq(run("/system  Be brief. "), STATUS_OK);
    cr_expect_str_eq(conversation_system(&chat.conversation), "Be brief.");
    cr_assert_eq(run("/system -"), STATUS_OK);
    cr_expect_null(conversation_system(&chat.conversation));
}

Test(chat_command, clear_drops_a_message_without_an_answer)
{
    chat.is_unanswered = true;
    cr_assert_eq(run("/clear"), STATUS_OK);
    cr_expect_not(chat.is_unanswered);
    cr_expect_null(conversation_last_role(&chat.conversation));
    expect_refused("/retry", "there is no message to answer");
}

Test(chat_command, quit_ends_and_what_is_no_command_is_refused)
{
    cr_assert_eq(run("/quit"), STATUS_OK);
    cr_expect(ends);
    expect_refused("/qiut", "did you mean /quit?");
    expect_refused("/usr/bin", "a message that begins with / needs //");
    expect_refused("/save", "/save needs the name of a file");
    expect_refused("/load /nowhere/at/all", "/nowhere/at/all");
}
