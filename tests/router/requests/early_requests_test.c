/* early_requests: what came before it could be judged is handed on whole, once, by tenants' turns and in order of arrival; the
 * queue is bounded by count and by bytes, where who has most gives way, and left by the limit, by a call's own end and by a
 * drain. */
#include "base/clock.h"
#include "router/requests/early_requests.h"
#include "tests/router/support/door_double.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define ARRIVED_NS 1000u /* by the test's own clock, that of the steps */
#define LIMIT_NS   (50 * NS_PER_MS)

enum { N_MAX = 8, TEXT_MAX = 4096 };

/* How a wait ended. */
struct end {
    enum status status;
    char id[16], sentence[96];
    size_t text_bytes;
    bool is_intact;
    enum early_known needs;
    uint64_t arrived_ns;
    uint32_t n_waiting; /* while it was told */
};

struct rig {
    struct door_double calls[N_MAX];
    uint32_t n_calls;
    struct early_requests *early;
    enum early_known needs;   /* of those that come */
    struct standing standing; /* of the next one */
    struct end ends[N_MAX];
    uint32_t n_ends;
};

static void note(void *arg, const struct arrival *arrival, enum status status,
                 const char *sentence);

static void open_rig(struct rig *rig, uint32_t requests_max, uint64_t bytes_max)
{
    memset(rig, 0, sizeof *rig);
    rig->needs = EARLY_MODEL;
    struct early_requests_options options = {requests_max, bytes_max, LIMIT_NS};
    cr_assert_eq(early_requests_create(&options, &rig->early), STATUS_OK);
}

/* Every call has ended. */
static void close_rig(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->n_calls; i++)
        cr_assert_eq(rig->calls[i].n_holders, 1, "the test's alone");
    early_requests_destroy(rig->early);
}

/* What the push said. */
static enum status ask(struct rig *rig, const char *id, size_t text_bytes)
{
    static char text[TEXT_MAX];
    memset(text, 'x', sizeof text);
    cr_assert_leq(text_bytes, sizeof text);
    Kvferry__V1__GenerateRequest message = KVFERRY__V1__GENERATE_REQUEST__INIT;
    message.request_id = (char *)id;
    message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    message.text = (ProtobufCBinaryData){text_bytes, (uint8_t *)text};
    cr_assert_lt(rig->n_calls, N_MAX);
    struct door_double *call = &rig->calls[rig->n_calls++];
    door_double_init(call, id);
    struct arrival arrival = {.call = &call->base,
                              .message = &message.base,
                              .needs = rig->needs,
                              .arrived_ns = ARRIVED_NS};
    return early_requests_push(rig->early, &arrival, &rig->standing, note, rig);
}

static void note(void *arg, const struct arrival *arrival, enum status status, const char *sentence)
{
    struct rig *rig = arg;
    const Kvferry__V1__GenerateRequest *message = (const Kvferry__V1__GenerateRequest *)
                                                      arrival->message;
    const ProtobufCBinaryData *text = &message->text;
    cr_assert_lt(rig->n_ends, N_MAX);
    struct end *end = &rig->ends[rig->n_ends++];
    *end = (struct end){
        .status = status,
        .text_bytes = text->len,
        .is_intact = true,
        .needs = arrival->needs,
        .arrived_ns = arrival->arrived_ns,
        .n_waiting = early_requests_count(rig->early),
    };
    for (size_t i = 0; i < text->len; i++)
        end->is_intact &= text->data[i] == 'x';
    snprintf(end->id, sizeof end->id, "%s", message->request_id);
    snprintf(end->sentence, sizeof end->sentence, "%s", sentence);
}

static void step(struct rig *rig, uint64_t now_ns, enum early_known known)
{
    early_requests_step(rig->early, now_ns, known, note, rig);
}

static void expect_end(const struct rig *rig, uint32_t i, const char *id, enum status status)
{
    cr_assert_lt(i, rig->n_ends);
    cr_assert_str_eq(rig->ends[i].id, id);
    cr_assert_eq(rig->ends[i].status, status, "%s: %s", id, status_name(rig->ends[i].status));
}

Test(early_requests, are_handed_on_whole_and_in_order_when_they_can_be_judged)
{
    static const char *const IDS[] = {"a", "b", "c"};
    struct rig rig;
    open_rig(&rig, 3, 1 << 20);
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(ask(&rig, IDS[i], 1000 * (i + 1)), STATUS_OK);
    step(&rig, ARRIVED_NS, EARLY_TOKENIZER);
    step(&rig, ARRIVED_NS + LIMIT_NS - 1, EARLY_TOKENIZER);
    cr_assert_eq(rig.n_ends, 0);
    cr_assert_eq(early_requests_count(rig.early), 3);

    step(&rig, ARRIVED_NS + LIMIT_NS, EARLY_MODEL);
    cr_assert_eq(rig.n_ends, 3);
    for (uint32_t i = 0; i < 3; i++) {
        expect_end(&rig, i, IDS[i], STATUS_OK);
        cr_assert_eq(rig.ends[i].text_bytes, 1000 * (i + 1));
        cr_assert(rig.ends[i].is_intact && rig.ends[i].needs == EARLY_MODEL);
        cr_assert_eq(rig.ends[i].arrived_ns, ARRIVED_NS);
        cr_assert_eq(rig.ends[i].n_waiting, 3 - i, "nobody passes the one that is being judged");
    }
    cr_assert_eq(early_requests_count(rig.early), 0);
    step(&rig, ARRIVED_NS + LIMIT_NS, EARLY_MODEL);
    cr_assert_eq(rig.n_ends, 3);
    close_rig(&rig);
}

static enum status ask_as(struct rig *rig, uint64_t tenant, uint32_t weight, const char *id,
                          size_t text_bytes)
{
    rig->standing = (struct standing){.tenant = tenant, .weight = weight};
    return ask(rig, id, text_bytes);
}

Test(early_requests, are_handed_on_by_their_tenants_turns)
{
    static const char ORDER[] = "a1b2c3d4";
    struct rig rig;
    open_rig(&rig, N_MAX, 1 << 20);
    for (const char *id = "abcd"; *id; id++)
        cr_assert_eq(ask_as(&rig, 1, 1, (char[]){*id, '\0'}, 100), STATUS_OK);
    for (const char *id = "1234"; *id; id++)
        cr_assert_eq(ask_as(&rig, 2, 1, (char[]){*id, '\0'}, 100), STATUS_OK);
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    cr_assert_eq(rig.n_ends, N_MAX);
    for (uint32_t i = 0; i < N_MAX; i++)
        expect_end(&rig, i, (char[]){ORDER[i], '\0'}, STATUS_OK);
    close_rig(&rig);
}

Test(early_requests, turns_go_by_weight_and_bytes)
{
    static const char ORDER[] = "a1bcd2";
    struct rig rig;
    open_rig(&rig, N_MAX, 1 << 20);
    for (const char *id = "abcd"; *id; id++)
        cr_assert_eq(ask_as(&rig, 1, 2, (char[]){*id, '\0'}, 1000), STATUS_OK);
    cr_assert_eq(ask_as(&rig, 2, 1, "1", 1900), STATUS_OK);
    cr_assert_eq(ask_as(&rig, 2, 1, "2", 100), STATUS_OK);
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    cr_assert_eq(rig.n_ends, sizeof ORDER - 1);
    for (uint32_t i = 0; i < sizeof ORDER - 1; i++)
        expect_end(&rig, i, (char[]){ORDER[i], '\0'}, STATUS_OK);
    close_rig(&rig);
}

Test(early_requests, who_has_most_of_a_full_queue_gives_way)
{
    struct rig rig;
    open_rig(&rig, 3, 1 << 20);
    for (const char *id = "abc"; *id; id++)
        cr_assert_eq(ask_as(&rig, 1, 1, (char[]){*id, '\0'}, 1), STATUS_OK);
    cr_assert_eq(ask_as(&rig, 1, 1, "d", 1), STATUS_QUEUE_FULL);
    cr_assert_eq(rig.n_ends, 0);
    cr_assert_eq(ask_as(&rig, 2, 1, "1", 1), STATUS_OK);
    expect_end(&rig, 0, "c", STATUS_QUEUE_FULL);
    cr_assert_str_eq(rig.ends[0].sentence,
                     "as many requests wait as may, and this tenant has most of "
                     "them for its weight");
    cr_assert_eq(ask_as(&rig, 2, 1, "2", 1), STATUS_QUEUE_FULL, "as many as the other would have");
    cr_assert_eq(early_requests_count(rig.early), 3);
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    cr_assert_eq(rig.n_ends, 4);
    close_rig(&rig);

    open_rig(&rig, N_MAX, 2000);
    cr_assert_eq(ask_as(&rig, 1, 1, "a", 1400), STATUS_OK);
    cr_assert_eq(ask_as(&rig, 1, 1, "b", 400), STATUS_OK);
    cr_assert_eq(ask_as(&rig, 2, 1, "1", 900), STATUS_QUEUE_FULL, "the last's place is too small");
    cr_assert_eq(rig.n_ends, 0);
    cr_assert_eq(ask_as(&rig, 2, 1, "2", 400), STATUS_OK);
    expect_end(&rig, 0, "b", STATUS_QUEUE_FULL);
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    cr_assert_eq(rig.n_ends, 3);
    close_rig(&rig);
}

Test(early_requests, are_bounded_by_count)
{
    struct rig rig;
    open_rig(&rig, 2, 1 << 20);
    cr_assert_eq(ask(&rig, "a", 1), STATUS_OK);
    cr_assert_eq(ask(&rig, "b", 1), STATUS_OK);
    cr_assert_eq(ask(&rig, "c", 1), STATUS_QUEUE_FULL);
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    cr_assert_eq(ask(&rig, "d", 1), STATUS_OK);
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    expect_end(&rig, 2, "d", STATUS_OK);
    close_rig(&rig);

    open_rig(&rig, 0, 1 << 20);
    cr_assert_eq(ask(&rig, "a", 1), STATUS_NO_GENERATION_WORKER);
    close_rig(&rig);
}

Test(early_requests, are_bounded_by_bytes_but_one_alone_may_have_more)
{
    struct rig rig;
    open_rig(&rig, N_MAX, 2000);
    cr_assert_eq(ask(&rig, "a", 4000), STATUS_OK, "nothing else waits");
    cr_assert_eq(ask(&rig, "b", 1), STATUS_QUEUE_FULL);
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    cr_assert_eq(ask(&rig, "c", 1500), STATUS_OK, "its bytes came free");
    cr_assert_eq(ask(&rig, "d", 500), STATUS_QUEUE_FULL);
    cr_assert_eq(ask(&rig, "e", 400), STATUS_OK, "a refused one is not held");
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    cr_assert_eq(rig.n_ends, 3);
    close_rig(&rig);
}

Test(early_requests, wait_no_longer_than_the_limit)
{
    struct rig rig;
    open_rig(&rig, N_MAX, 1 << 20);
    cr_assert_eq(ask(&rig, "a", 1), STATUS_OK);
    step(&rig, ARRIVED_NS, EARLY_TOKENIZER);
    step(&rig, ARRIVED_NS + LIMIT_NS - 1, EARLY_TOKENIZER);
    cr_assert_eq(rig.n_ends, 0);
    step(&rig, ARRIVED_NS + LIMIT_NS, EARLY_TOKENIZER);
    expect_end(&rig, 0, "a", STATUS_NO_GENERATION_WORKER);
    cr_assert_str_eq(rig.ends[0].sentence, "no generation worker is ready: waited 50 ms for one");
    close_rig(&rig);
}

Test(early_requests, a_tokenizer_that_loads_for_long_leaves_them_their_time_for_a_worker)
{
    struct rig rig;
    open_rig(&rig, N_MAX, 1 << 20);
    cr_assert_eq(ask(&rig, "a", 1), STATUS_OK);
    step(&rig, ARRIVED_NS + 3 * LIMIT_NS, EARLY_TOKENIZER);
    step(&rig, ARRIVED_NS + 4 * LIMIT_NS - 1, EARLY_TOKENIZER);
    cr_assert_eq(rig.n_ends, 0);
    step(&rig, ARRIVED_NS + 4 * LIMIT_NS, EARLY_TOKENIZER);
    expect_end(&rig, 0, "a", STATUS_NO_GENERATION_WORKER);
    close_rig(&rig);
}

Test(early_requests, are_left_by_a_cancel_and_by_a_deadline)
{
    struct rig rig;
    open_rig(&rig, N_MAX, 1 << 20);
    cr_assert_eq(ask(&rig, "a", 1), STATUS_OK);
    cr_assert_eq(ask(&rig, "b", 1), STATUS_OK);
    cr_assert_eq(ask(&rig, "c", 1), STATUS_OK);
    rig.calls[2].ended = STATUS_CANCELLED;
    step(&rig, ARRIVED_NS, EARLY_TOKENIZER);
    cr_assert_eq(rig.n_ends, 1);
    expect_end(&rig, 0, "c", STATUS_CANCELLED);
    cr_assert_eq(ask(&rig, "d", 1), STATUS_OK);
    rig.calls[3].ended = STATUS_TIMED_OUT;
    step(&rig, ARRIVED_NS, EARLY_TOKENIZER);
    cr_assert_eq(rig.n_ends, 2);
    expect_end(&rig, 1, "d", STATUS_TIMED_OUT);
    rig.calls[0].ended = STATUS_CANCELLED;
    step(&rig, ARRIVED_NS, EARLY_TOKENIZER);
    cr_assert_eq(rig.n_ends, 3);
    expect_end(&rig, 2, "a", STATUS_CANCELLED);

    cr_assert_eq(ask(&rig, "e", 1), STATUS_OK);
    step(&rig, ARRIVED_NS, EARLY_MODEL);
    expect_end(&rig, 3, "b", STATUS_OK);
    expect_end(&rig, 4, "e", STATUS_OK);
    close_rig(&rig);
}

Test(early_requests, are_ended_by_a_drain_and_come_no_more)
{
    struct rig rig;
    open_rig(&rig, N_MAX, 1 << 20);
    cr_assert_eq(ask(&rig, "a", 1), STATUS_OK);
    cr_assert_eq(ask(&rig, "b", 1), STATUS_OK);
    early_requests_drain(rig.early, note, &rig);
    expect_end(&rig, 0, "a", STATUS_DRAINING);
    expect_end(&rig, 1, "b", STATUS_DRAINING);
    cr_assert_eq(early_requests_count(rig.early), 0);
    cr_assert_eq(ask(&rig, "c", 1), STATUS_DRAINING);
    close_rig(&rig);
    early_requests_destroy(NULL);
}

/* The test's messages are all of one type: what is waited for goes by what they need. */
Test(early_requests, before_the_tokenizer_is_there_texts_wait_too_and_go_first)
{
    struct rig rig;
    open_rig(&rig, 4, 4096);
    rig.needs = EARLY_MODEL;
    cr_assert_eq(ask(&rig, "tokens", 10), STATUS_OK);
    rig.needs = EARLY_TOKENIZER;
    cr_assert_eq(ask(&rig, "text", 10), STATUS_OK);
    cr_assert_eq(ask(&rig, "ids", 10), STATUS_OK);
    step(&rig, ARRIVED_NS + 1, EARLY_NOTHING);
    cr_assert_eq(rig.n_ends, 0);
    step(&rig, ARRIVED_NS + 2, EARLY_TOKENIZER);
    cr_assert_eq(rig.n_ends, 2);
    cr_assert_str_eq(rig.ends[0].id, "text");
    cr_assert_str_eq(rig.ends[1].id, "ids");
    step(&rig, ARRIVED_NS + 3, EARLY_MODEL);
    cr_assert_eq(rig.n_ends, 3);
    cr_assert_eq(rig.ends[2].status, STATUS_OK);

    rig.needs = EARLY_TOKENIZER;
    cr_assert_eq(ask(&rig, "late", 10), STATUS_OK);
    step(&rig, ARRIVED_NS + LIMIT_NS, EARLY_NOTHING);
    cr_assert_eq(rig.ends[3].status, STATUS_LOADING);
    cr_assert_str_eq(rig.ends[3].sentence, "the tokenizer is loading: waited 50 ms");
    close_rig(&rig);
}
