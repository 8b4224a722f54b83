/* ctx_engine: prompts are computed by tenant and priority, whichever generation worker sends them, and the share of a caller is
 * bounded, whatever tenants it names. */
#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { ONE = 1, OTHER = 2, FLOOD = 12, N_PROMPT = 16 };

static const struct ctx_rig_options NARROW = {
    .n_blocks = 64, .slots_max = 1, .queue_max = 32, .queue_limit_ns = NS_PER_S};

struct asker {
    struct rig_stream stream;
    bool has_left;
};

static void ask(struct ctx_rig *rig, struct asker *asker, uint64_t caller, struct standing standing)
{
    static uint32_t n_asked;
    char name[16];
    snprintf(name, sizeof name, "r%u", n_asked++);
    struct ctx_prefill_request request = ctx_rig_request(name, n_asked, N_PROMPT);
    request.caller = caller;
    request.input.standing = standing;
    cr_assert_eq(ctx_engine_prefill(rig->engine, &asker->stream, &request, NULL), STATUS_OK);
}

static bool is_sealed(const struct asker *asker)
{
    const struct rig_stream *stream = &asker->stream;
    return stream->n_events > 0 && stream->kinds[stream->n_events - 1] == EVENT_SEALED;
}

static uint32_t n_sealed(const struct asker *askers, uint32_t n)
{
    uint32_t n_yes = 0;
    for (uint32_t i = 0; i < n; i++)
        n_yes += is_sealed(&askers[i]);
    return n_yes;
}

/* A computed prompt ends, and another one gets its slot. */
static void leave(struct ctx_rig *rig, struct asker *askers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!is_sealed(&askers[i]) || askers[i].has_left)
            continue;
        askers[i].has_left = true;
        ctx_engine_stream_ended(rig->engine, &askers[i].stream);
    }
}

/* Returns how many of the flood were computed before it. */
static uint32_t until_sealed(struct ctx_rig *rig, const struct asker *asker, struct asker *flood)
{
    for (int i = 0; i < 100 && !is_sealed(asker); i++) {
        leave(rig, flood, FLOOD);
        ctx_rig_settle(rig);
    }
    cr_assert(is_sealed(asker));
    return n_sealed(flood, FLOOD);
}

Test(standing, a_prompt_of_high_priority_overtakes_a_flood_of_its_tenant)
{
    struct ctx_rig rig;
    static struct asker flood[FLOOD], urgent;
    ctx_rig_open(&rig, NARROW);
    for (uint32_t i = 0; i < FLOOD; i++)
        ask(&rig, &flood[i], 1, (struct standing){.tenant = ONE, .priority = -5});
    ctx_rig_settle(&rig);
    ask(&rig, &urgent, 2, (struct standing){.tenant = ONE, .priority = 5});
    cr_assert_eq(until_sealed(&rig, &urgent, flood), 1, "the one that had begun");
    ctx_rig_close(&rig);
}

static uint32_t n_before_the_low_one(uint64_t waited_ms)
{
    struct ctx_rig rig;
    static struct asker flood[FLOOD];
    struct asker first = {.has_left = false}, low = {.has_left = false};
    for (uint32_t i = 0; i < FLOOD; i++)
        flood[i] = (struct asker){.has_left = false};
    ctx_rig_open(&rig, NARROW);
    ask(&rig, &first, 1, (struct standing){.tenant = ONE});
    ctx_rig_settle(&rig);
    ask(&rig, &low, 1, (struct standing){.tenant = ONE, .priority = -2});
    ctx_rig_settle(&rig);
    rig.now_ns += waited_ms * NS_PER_MS;
    for (uint32_t i = 0; i < FLOOD; i++)
        ask(&rig, &flood[i], 1, (struct standing){.tenant = ONE, .priority = 2});
    ctx_rig_settle(&rig);
    leave(&rig, &first, 1);
    ctx_rig_settle(&rig);
    uint32_t n = until_sealed(&rig, &low, flood);
    ctx_rig_close(&rig);
    return n;
}

Test(standing, a_prompt_of_low_priority_ages)
{
    cr_assert_eq(n_before_the_low_one(4 * RIG_AGING_MS - 1), FLOOD);
    cr_assert_eq(n_before_the_low_one(4 * RIG_AGING_MS + 1), 0);
}

/* The same generation worker asks for both. */
Test(standing, two_tenants_of_one_caller_are_served_by_their_weights)
{
    enum { N_EACH = FLOOD };
    struct ctx_rig rig;
    static struct asker light[N_EACH], heavy[N_EACH];
    ctx_rig_open(&rig, NARROW);
    for (uint32_t i = 0; i < N_EACH; i++) {
        ask(&rig, &light[i], 1, (struct standing){.tenant = ONE, .weight = 1});
        ask(&rig, &heavy[i], 1, (struct standing){.tenant = OTHER, .weight = 3});
    }
    for (int i = 0; i < 100 && n_sealed(heavy, N_EACH) < N_EACH - 1; i++) {
        ctx_rig_settle(&rig);
        uint32_t of_light = 3 * n_sealed(light, N_EACH), of_heavy = n_sealed(heavy, N_EACH);
        uint32_t apart = of_light > of_heavy ? of_light - of_heavy : of_heavy - of_light;
        cr_assert_leq(apart, 3 * 2, "2 U / the smaller weight, U one prompt: %u and %u", of_light,
                      of_heavy); /* times 3 */
        leave(&rig, light, N_EACH);
        leave(&rig, heavy, N_EACH);
    }
    cr_assert_eq(n_sealed(heavy, N_EACH), N_EACH - 1);
    cr_assert(n_sealed(light, N_EACH) >= 3 && n_sealed(light, N_EACH) <= 5, "a third: %u",
              n_sealed(light, N_EACH));
    ctx_rig_close(&rig);
}

Test(standing, tenants_that_a_caller_makes_up_give_it_no_more_than_its_share)
{
    struct ctx_rig rig;
    static struct asker hog[FLOOD], other;
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 64,
                                                .slots_max = 8,
                                                .queue_max = 16,
                                                .queue_limit_ns = NS_PER_S,
                                                .caller_share = 75});
    for (uint32_t i = 0; i < FLOOD; i++)
        ask(&rig, &hog[i], 1,
            (struct standing){.tenant = 100 + i, .weight = 1000, .priority = 100});
    ctx_rig_settle(&rig);
    cr_assert_eq(n_sealed(hog, FLOOD), 6, "of 8 slots");
    ask(&rig, &other, 2, (struct standing){.tenant = ONE});
    ctx_rig_settle(&rig);
    cr_assert(is_sealed(&other));
    ctx_rig_close(&rig);
}

Test(standing, out_of_range_is_refused)
{
    struct ctx_rig rig;
    struct rig_stream stream = {0};
    struct error error = {""};
    struct ctx_prefill_request request = ctx_rig_request("a", 1, N_PROMPT);
    ctx_rig_open(&rig, NARROW);
    request.input.standing.weight = 1001;
    cr_assert_eq(ctx_engine_prefill(rig.engine, &stream, &request, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "standing.weight is 1001, wanted 0 to 1000");
    ctx_rig_close(&rig);
}
