/* Constraints: a reply of each kind is what it must be, split equals single, alone equals in company, with pauses and as one of several
 * choices; what cannot be compiled or met is said with its field; whoever leaves while it is compiled leaves nothing behind, and nobody else
 * waits for it. */
#include "proto/kvferry/v1/generation.pb-c.h"
#include "support/client.h"
#include "support/cluster.h"
#include "support/dial.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <regex.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPT = 200, N_TOKENS = 400, N_CHOICES = 3, N_KINDS = 5 };

#define LIMIT_NS (120 * NS_PER_S)

struct choice {
    uint32_t ids[N_TOKENS], n_ids;
    char text[4096];
    size_t n_text;
    int reason, matched, place;
    uint64_t kv_bytes;
};

/* A request and its reply. */
struct question {
    Kvferry__V1__GenerateRequest message;
    Kvferry__V1__SamplingParams sampling;
    Kvferry__V1__TokenIds ids;
    Kvferry__V1__Constraint constraint;
    Kvferry__V1__ConstraintChoices choices;
    uint32_t allowed[1];
    char salt[32], *owned;
    struct rpc_client_call *call;
    sem_t ended;
    struct rpc_error error;
    struct choice replies[N_CHOICES];
};

struct caller {
    struct cluster cluster;
    struct dial router;
    uint32_t prompt[N_PROMPT];
};

static void open_caller(struct caller *caller, const struct cluster_options *options)
{
    memset(caller, 0, sizeof *caller);
    cluster_start(&caller->cluster, options);
    prompt_tokens(3, caller->prompt, N_PROMPT);
    dial_open(&caller->router, "constraints", caller->cluster.router.grpc);
}

static void close_caller(struct caller *caller)
{
    cluster_wait_quiet(&caller->cluster);
    cr_assert_eq(child_metric(&caller->cluster.generations[0], "kvferry_kv_blocks_unowned", ""), 0);
    dial_close(&caller->router);
    cluster_stop(&caller->cluster);
}

/* ---- a question ---- */

static struct question *ask_for(struct caller *caller, uint64_t seed, uint32_t max_tokens)
{
    struct question *question = calloc(1, sizeof *question);
    Kvferry__V1__SamplingParams *sampling = &question->sampling;
    cr_assert_not_null(question);
    sem_init(&question->ended, 0, 0);
    kvferry__v1__generate_request__init(&question->message);
    kvferry__v1__sampling_params__init(sampling);
    kvferry__v1__token_ids__init(&question->ids);
    kvferry__v1__constraint__init(&question->constraint);
    kvferry__v1__constraint_choices__init(&question->choices);
    question->ids.ids = caller->prompt;
    question->ids.n_ids = N_PROMPT;
    sampling
        ->max_tokens_presence_case = KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS;
    sampling->max_tokens = max_tokens;
    sampling->seed_presence_case = KVFERRY__V1__SAMPLING_PARAMS__SEED_PRESENCE_SEED;
    sampling->seed = seed;
    question->message.sampling = sampling;
    question->message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    question->message.token_ids = &question->ids;
    question->message.return_timing = true;
    return question;
}

static void ask_end(struct question *question)
{
    if (question->call)
        rpc_client_call_release(question->call);
    sem_destroy(&question->ended);
    free(question->owned);
    free(question);
}

#define SCHEMA                                                                                     \
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 6},"  \
    "\"age\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 99},"                           \
    "\"kind\": {\"enum\": [\"sheep\", \"goat\"]}}, \"required\": [\"name\", \"age\", \"kind\"],"   \
    "\"additionalProperties\": false}"
#define BLANKS "[ \n\r\t]*"

static char *CHOICE_TEXTS[] = {(char *)"yes", (char *)"no", (char *)"a long answer"};

/* The demo model repeats blanks, which JSON may have anywhere, without end. */
static void be_brief(Kvferry__V1__SamplingParams *sampling)
{
    sampling->frequency_penalty_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__FREQUENCY_PENALTY_PRESENCE_FREQUENCY_PENALTY;
    sampling->frequency_penalty = 2;
}

static void constrain(struct question *question, uint32_t kind)
{
    Kvferry__V1__Constraint *constraint = &question->constraint;
    be_brief(&question->sampling);
    question->sampling.constraint = constraint;
    switch (kind) {
    case 0:
        constraint->kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA;
        constraint->json_schema = (char *)SCHEMA;
        break;
    case 1:
        constraint->kind_case = KVFERRY__V1__CONSTRAINT__KIND_REGEX;
        constraint->regex = (char *)"[a-c]{3,5}-[0-9]{2}( [a-z]{2,9}){4}";
        break;
    case 2:
        constraint->kind_case = KVFERRY__V1__CONSTRAINT__KIND_GRAMMAR;
        constraint->grammar = (char *)"start: pair (\",\" pair)? \";\"\n"
                                      "pair: /[a-z]=[0-9]{1,2}/\n";
        break;
    case 3:
        constraint->kind_case = KVFERRY__V1__CONSTRAINT__KIND_CHOICES;
        constraint->choices = &question->choices;
        question->choices.texts = CHOICE_TEXTS;
        question->choices.n_texts = 3;
        break;
    default:
        constraint->kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT;
        constraint->json_object = true;
    }
}

/* What whole replies of these kinds match. */
static const char *const PATTERNS[N_KINDS] = {
    "^\\{" BLANKS "\"name\"" BLANKS ":" BLANKS "\".*\"" BLANKS "," BLANKS "\"age\"" BLANKS
    ":" BLANKS "[0-9][0-9]?" BLANKS "," BLANKS "\"kind\"" BLANKS ":" BLANKS
    "\"(sheep|goat)\"" BLANKS "\\}$",
    "^[a-c]{3,5}-[0-9]{2}( [a-z]{2,9}){4}$",
    "^[a-z]=[0-9]{1,2}(,[a-z]=[0-9]{1,2})?;$",
    "^(yes|no|a long answer)$",
    "^" BLANKS "\\{.*",
};

/* ---- the answer ---- */

static void on_piece(void *arg, const ProtobufCMessage *message)
{
    struct question *question = arg;
    const Kvferry__V1__GenerateResponse *piece = (const Kvferry__V1__GenerateResponse *)message;
    cr_assert_lt(piece->index, N_CHOICES);
    struct choice *reply = &question->replies[piece->index];
    cr_assert_leq(reply->n_ids + piece->n_token_ids, N_TOKENS);
    for (size_t i = 0; i < piece->n_token_ids; i++)
        reply->ids[reply->n_ids++] = piece->token_ids[i];
    cr_assert_lt(reply->n_text + piece->text.len, sizeof reply->text);
    if (piece->text.len > 0)
        memcpy(reply->text + reply->n_text, piece->text.data, piece->text.len);
    reply->n_text += piece->text.len;
    if (!piece->finish_reason)
        return;
    reply->reason = (int)piece->finish_reason;
    reply->matched = (int)piece->matched_stop_case;
    if (piece->timing) {
        reply->place = (int)piece->timing->prefill_place;
        reply->kv_bytes = piece->timing->kv_bytes_received;
    }
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct question *question = arg;
    question->error = *error;
    sem_post(&question->ended);
}

static void start(struct caller *caller, struct question *question)
{
    static uint32_t n_asked;
    snprintf(question->salt, sizeof question->salt, "salt %u", n_asked++);
    question->message.cache_salt = question->salt;
    const struct rpc_request request = {
        .path = "/kvferry.v1.GenerationService/Generate",
        .message = &question->message.base,
        .response = &kvferry__v1__generate_response__descriptor,
        .is_stream = true,
        .deadline_ns = clock_now_ns() + LIMIT_NS,
        .on_message = on_piece,
        .on_end = on_end,
        .arg = question,
    };
    cr_assert_eq(rpc_channel_start(caller->router.channel, &request, &question->call), STATUS_OK);
}

static void wait_for(struct question *question)
{
    while (sem_wait(&question->ended) != 0) /* EINTR */
        ;
}

static bool has_ended(struct question *question)
{
    int n;
    return sem_getvalue(&question->ended, &n) == 0 && n > 0;
}

static void expect_ok(const struct question *question)
{
    cr_assert_eq(question->error.status, STATUS_OK, "%s: %s", question->error.field,
                 question->error.message);
}

static void ask(struct caller *caller, struct question *question)
{
    start(caller, question);
    wait_for(question);
}

static void expect_fits(const struct choice *reply, uint32_t kind)
{
    regex_t pattern;
    cr_assert_eq(regcomp(&pattern, PATTERNS[kind], REG_EXTENDED | REG_NOSUB), 0);
    cr_assert_eq(strlen(reply->text), reply->n_text);
    cr_assert_eq(regexec(&pattern, reply->text, 0, NULL, 0), 0, "kind %u: %s", kind, reply->text);
    regfree(&pattern);
    if (kind != 0 && (kind < 4 || reply->reason != KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP))
        return;
    json_t *value = json_loads(reply->text, 0, NULL);
    cr_assert(json_is_object(value), "%s", reply->text);
    json_decref(value);
}

static void expect_equal(const struct choice *one, const struct choice *other)
{
    cr_assert_str_eq(one->text, other->text);
    cr_assert_eq(one->n_ids, other->n_ids);
    cr_assert_arr_eq(one->ids, other->ids, one->n_ids * sizeof *one->ids);
    cr_assert_eq(one->reason, other->reason);
    cr_assert_eq(one->matched, other->matched);
}

/* A whole reply of that kind, but of json_object, which has no end of its own. With log-probabilities each token is drawn, also one that
 * alone can come. */
static struct question *ask_well_with(struct caller *caller, uint32_t kind, uint64_t seed,
                                      uint32_t logprobs)
{
    struct question *question = ask_for(caller, seed, kind == 4 ? 24 : N_TOKENS);
    constrain(question, kind);
    question->sampling.logprobs = logprobs;
    ask(caller, question);
    expect_ok(question);
    expect_fits(&question->replies[0], kind);
    if (kind < 4)
        cr_assert_eq(question->replies[0].reason, KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP);
    if (kind == 3)
        cr_assert_eq(question->replies[0].matched,
                     KVFERRY__V1__GENERATE_RESPONSE__MATCHED_STOP__NOT_SET, "no stop token came");
    return question;
}

static struct question *ask_well(struct caller *caller, uint32_t kind, uint64_t seed)
{
    return ask_well_with(caller, kind, seed, 0);
}

static struct caller single, split;

/* flags: of the generation worker of the split one; NULL: none. */
static void open_with(const char *const *flags)
{
    open_caller(&single, &(struct cluster_options){.n_generations = 1});
    open_caller(&split, &(struct cluster_options){
                            .n_contexts = 1, .n_generations = 1, .generation = flags});
}

static void open_both(void)
{
    open_with(NULL);
}

static void close_both(void)
{
    close_caller(&single);
    close_caller(&split);
}

Test(constraint, each_kind_holds_and_split_equals_single)
{
    open_both();
    for (uint32_t kind = 0; kind < N_KINDS; kind++) {
        for (uint64_t seed = 1; seed <= 3; seed++) {
            struct question *here = ask_well_with(&single, kind, seed, 1);
            struct question *there = ask_well(&split, kind, seed);
            expect_equal(&here->replies[0], &there->replies[0]);
            cr_assert_eq(there->replies[0].place,
                         KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKER);
            cr_assert(there->replies[0].kv_bytes > 0 || there->replies[0].n_ids == 1);
            ask_end(here);
            ask_end(there);
        }
    }
    close_both();
}

static double steps_of(const struct caller *caller)
{
    return child_metric(&caller->cluster.generations[0], "kvferry_step_seconds_count", "");
}

static double decodes_of(const struct caller *caller)
{
    return child_metric(&caller->cluster.generations[0], "kvferry_batch_sequences_count", "");
}

/* Each way its steps; the tokens of both are equal. */
Test(constraint, tokens_that_alone_can_come_take_no_step_of_their_own)
{
    struct question *questions[2];
    double steps[2], decodes[2];
    open_caller(&single, &(struct cluster_options){.n_generations = 1});
    for (uint32_t i = 0; i < 2; i++) {
        const double before = steps_of(&single), decodes_before = decodes_of(&single);
        questions[i] = ask_for(&single, 1, N_TOKENS);
        questions[i]->sampling.constraint = &questions[i]->constraint;
        questions[i]->constraint.kind_case = KVFERRY__V1__CONSTRAINT__KIND_REGEX;
        questions[i]->constraint.regex = (char *)"In the [a-z]{5} God created the heaven and the "
                                                 "earth[.] And the [a-z]{5} was without form";
        questions[i]->sampling.logprobs = 1 - i;
        ask(&single, questions[i]);
        expect_ok(questions[i]);
        cluster_wait_quiet(&single.cluster);
        steps[i] = steps_of(&single) - before;
        decodes[i] = decodes_of(&single) - decodes_before;
    }
    expect_equal(&questions[0]->replies[0], &questions[1]->replies[0]);
    cr_assert_geq(steps[0] + 1, questions[0]->replies[0].n_ids);
    cr_assert_lt(2 * steps[1], steps[0], "%g steps, and %g for all tokens", steps[1], steps[0]);
    cr_assert_eq(decodes[0] + 1, questions[0]->replies[0].n_ids);
    cr_assert_geq(decodes[1], 2, "those with tokens ahead count, too");
    ask_end(questions[0]);
    ask_end(questions[1]);
    close_caller(&single);
}

/* Company whose tokens are guessed is free: it has no constraint. */
Test(constraint, choices_and_company_change_no_token)
{
    enum { N = 10 };
    static const char *const GUESSING[] = {"--speculate", "lookup", NULL};
    struct question *together[N], *several[2];
    open_with(GUESSING);
    struct question *free_one = ask_for(&split, 40, N_TOKENS);
    free_one->sampling.ignore_eos = true;
    start(&split, free_one);
    for (uint32_t i = 0; i < N; i++) {
        together[i] = ask_for(&split, i, i % 5 == 4 ? 24 : N_TOKENS);
        constrain(together[i], i % N_KINDS);
        start(&split, together[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        several[i] = ask_for(&split, 20, N_TOKENS);
        several[i]->sampling.n = N_CHOICES;
        constrain(several[i], i);
        start(&split, several[i]);
    }
    for (uint32_t i = 0; i < N; i++) {
        struct question *alone = ask_well(&single, i % N_KINDS, i);
        wait_for(together[i]);
        expect_ok(together[i]);
        expect_equal(&alone->replies[0], &together[i]->replies[0]);
        ask_end(alone);
        ask_end(together[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        wait_for(several[i]);
        expect_ok(several[i]);
        for (uint32_t k = 0; k < N_CHOICES; k++) {
            struct question *alone = ask_well(&single, i, 20 + k);
            expect_equal(&alone->replies[0], &several[i]->replies[k]);
            ask_end(alone);
        }
        ask_end(several[i]);
    }
    wait_for(free_one);
    expect_ok(free_one);
    ask_end(free_one);
    cr_expect_gt(child_metric(&split.cluster.generations[0], "kvferry_draft_tokens_total", ""), 0);
    close_both();
}

/* ---- pauses ---- */

/* With long parts that alone can come. */
#define LONG                                                                                       \
    "([a-z ]{20}, and it came to pass in those days; [a-z ]{30} of the children of Israel[.] ){5}" \
    "[a-z ]{60,70}[.]"

/* About 26 blocks each in the end. */
static const char *const SMALL[] = {
    "--kv-blocks", "64", "--capacity-policy", "max-utilization", "--capacity-headroom-blocks",
    "1",           NULL};

static struct question *ask_long(struct caller *caller, uint64_t seed, uint32_t logprobs)
{
    struct question *question = ask_for(caller, seed, N_TOKENS);
    question->sampling.constraint = &question->constraint;
    question->constraint.kind_case = KVFERRY__V1__CONSTRAINT__KIND_REGEX;
    question->constraint.regex = (char *)LONG;
    question->sampling.logprobs = logprobs;
    start(caller, question);
    return question;
}

static void run_paused(uint32_t n_contexts)
{
    enum { N = 6 };
    struct caller small;
    struct question *together[N];
    open_caller(&single, &(struct cluster_options){.n_generations = 1});
    open_caller(&small, &(struct cluster_options){
                            .n_contexts = n_contexts, .n_generations = 1, .generation = SMALL});
    for (uint32_t i = 0; i < N; i++)
        together[i] = ask_long(&small, i, 0);
    for (uint32_t i = 0; i < N; i++) {
        struct question *alone = ask_long(&single, i, 1);
        wait_for(alone);
        expect_ok(alone);
        wait_for(together[i]);
        expect_ok(together[i]);
        cr_assert_gt(alone->replies[0].n_ids, 60);
        expect_equal(&alone->replies[0], &together[i]->replies[0]);
        ask_end(alone);
        ask_end(together[i]);
    }
    cr_assert_gt(child_metric(&small.cluster.generations[0], "kvferry_decode_pauses_total", ""), 0);
    close_caller(&single);
    close_caller(&small);
}

Test(constraint, a_pause_changes_no_token_of_prompts_computed_here)
{
    run_paused(0);
}

Test(constraint, a_pause_changes_no_token_of_prompts_of_a_context_worker)
{
    run_paused(1);
}

/* ---- faults ---- */

static void expect_refused(struct question *question, enum status status, const char *field,
                           const char *says)
{
    for (uint32_t i = 0; i < 2; i++) {
        ask(i == 0 ? &single : &split, question);
        cr_assert_eq(question->error.status, status, "%s", question->error.message);
        cr_assert_str_eq(question->error.reason, status_reason(status));
        cr_assert_str_eq(question->error.field, field, "%s", question->error.message);
        cr_assert_not_null(strstr(question->error.message, says), "%s", question->error.message);
        cr_assert_eq(question->replies[0].n_ids, 0);
        rpc_client_call_release(question->call);
        question->call = NULL;
    }
    ask_end(question);
}

Test(constraint, what_is_wrong_is_said_with_its_field)
{
    open_both();
    struct question *question = ask_for(&single, 1, 8);
    constrain(question, 1);
    question->constraint.regex = (char *)"a(b";
    expect_refused(question, STATUS_INVALID_ARGUMENT, "sampling.constraint.regex", "group");
    question = ask_for(&single, 1, 8);
    constrain(question, 0);
    question->constraint.json_schema = (char *)"{\"type\": \"integer\"";
    expect_refused(question, STATUS_INVALID_ARGUMENT, "sampling.constraint.json_schema", "JSON");
    question = ask_for(&single, 1, 8);
    constrain(question, 2);
    question->constraint.grammar = (char *)"start: missing\n";
    expect_refused(question, STATUS_INVALID_ARGUMENT, "sampling.constraint.grammar", "missing");
    question = ask_for(&single, 1, 8);
    constrain(question, 3);
    question->choices.n_texts = 0;
    expect_refused(question, STATUS_INVALID_ARGUMENT, "sampling.constraint.choices", "0");
    question = ask_for(&single, 1, 8);
    constrain(question, 4);
    question->constraint.json_object = false;
    expect_refused(question, STATUS_INVALID_ARGUMENT, "sampling.constraint", "empty");
    /* No text can be it, from the first token on. */
    question = ask_for(&single, 1, 8);
    constrain(question, 3);
    question->sampling.allowed_token_ids = question->allowed;
    question->sampling.n_allowed_token_ids = 1;
    expect_refused(question, STATUS_CONSTRAINT_UNMET, "", "leaves no token to draw");
    close_both();
}

Test(constraint, a_worker_of_an_earlier_version_is_not_asked_for_one)
{
    static struct caller beside, alone;
    struct question *question;
    open_caller(&beside, &(struct cluster_options){.n_generations = 2,
                                                   .first_generation_binary = BEFORE_BINARY});
    for (uint32_t i = 0; i < 4; i++) /* whichever is asked first */
        ask_end(ask_well(&beside, 3, i));
    close_caller(&beside);
    open_caller(&alone, &(struct cluster_options){.n_generations = 1,
                                                  .first_generation_binary = BEFORE_BINARY});
    question = ask_for(&alone, 1, 8);
    constrain(question, 3);
    ask(&alone, question);
    cr_assert_eq(question->error.status, STATUS_UNSUPPORTED, "%s", question->error.message);
    cr_assert_not_null(strstr(question->error.message, "sampling.constraint is not supported"));
    ask_end(question);
    close_caller(&alone);
}

/* ---- long compilations ---- */

/* Thousands of words, others for each number. */
static void constrain_by_words(struct question *question, uint32_t number)
{
    enum { N_WORDS = 5000, WORD = 24 };
    const size_t room = N_WORDS * WORD + 32;
    char *text = question->owned = malloc(room);
    cr_assert_not_null(text);
    size_t n = (size_t)snprintf(text, room, "{\"enum\": [\"a\"");
    for (uint32_t i = 0; i < N_WORDS; i++)
        n += (size_t)snprintf(text + n, room - n, ", \"b%u word %u\"", number, i * 7919 % 100003);
    cr_assert_lt((size_t)snprintf(text + n, room - n, "]}"), room - n);
    question->sampling.constraint = &question->constraint;
    question->constraint.kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA;
    question->constraint.json_schema = question->owned;
}

Test(constraint, nobody_else_waits_for_long_compilations_and_who_leaves_them_leaves_nothing)
{
    enum { N_LONG = 60 };
    static struct question *all[N_LONG];
    uint32_t n_left = 0;
    open_both();
    struct question *expected = ask_for(&single, 5, 24);
    ask(&single, expected);
    expect_ok(expected);
    for (uint32_t i = 0; i < N_LONG; i++) {
        all[i] = ask_for(&split, 1, 8);
        constrain_by_words(all[i], i);
        start(&split, all[i]);
    }
    struct question *plain = ask_for(&split, 5, 24);
    ask(&split, plain);
    expect_ok(plain);
    expect_equal(&expected->replies[0], &plain->replies[0]);
    for (uint32_t i = 0; i < N_LONG; i++)
        n_left += !has_ended(all[i]);
    cr_assert_gt(n_left, 0, "a request without a constraint did not wait for them all");
    for (uint32_t i = 0; i < N_LONG; i++)
        if (i % 8 != 0)
            rpc_client_call_cancel(all[i]->call);
    for (uint32_t i = 0; i < N_LONG; i++) {
        wait_for(all[i]);
        if (i % 8 == 0)
            expect_ok(all[i]);
        else
            cr_assert(all[i]->error.status == STATUS_CANCELLED || all[i]->error.status == STATUS_OK,
                      "%s", all[i]->error.message);
        ask_end(all[i]);
    }
    ask_end(expected);
    ask_end(plain);
    ask_end(ask_well(&split, 3, 1));
    close_both();
}
