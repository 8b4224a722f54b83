/* gen_engine: tenants are served by weight, the requests of a tenant by priority and age, and a flood delays no other tenant. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { ONE = 1, OTHER = 2, N_PROMPT = 8, N_NEW = 8, FLOOD = 16 };

/* One decodes at a time. */
static const struct gen_rig_options NARROW = {.n_blocks = 64,
                                              .sequences_max = 1,
                                              .queue_max = 32,
                                              .prefills_max = 4,
                                              .no_prefix_cache = true};

static void ask(struct gen_rig *rig, struct rig_client *client, struct standing standing)
{
    static uint32_t n_asked;
    const struct sampling_params sampling = gen_rig_sampling(N_NEW);
    char name[16];
    snprintf(name, sizeof name, "r%u", n_asked++);
    struct gen_request request = gen_rig_request(name, n_asked, N_PROMPT, &sampling);
    request.context_worker = "";
    request.input.standing = standing;
    cr_assert_eq(gen_engine_generate(rig->engine, client, &request, NULL), STATUS_OK);
}

static uint32_t n_finished(const struct rig_client *clients, uint32_t n)
{
    uint32_t n_finishes = 0;
    for (uint32_t i = 0; i < n; i++)
        n_finishes += clients[i].n_finishes;
    return n_finishes;
}

static void step_until_finished(struct gen_rig *rig, const struct rig_client *client)
{
    for (int i = 0; i < 1000 && client->n_finishes == 0; i++)
        gen_rig_step(rig);
    expect_ended(client, STATUS_OK);
}

Test(standing, a_request_of_high_priority_overtakes_a_flood_of_its_tenant)
{
    struct gen_rig rig;
    static struct rig_client flood[FLOOD], urgent;
    gen_rig_open(&rig, NARROW);
    for (uint32_t i = 0; i < FLOOD; i++)
        ask(&rig, &flood[i], (struct standing){.priority = -5});
    gen_rig_step(&rig);
    ask(&rig, &urgent, (struct standing){.priority = 5});
    step_until_finished(&rig, &urgent);
    cr_assert_eq(n_finished(flood, FLOOD), 1, "the one that had begun");
    gen_rig_settle(&rig);
    for (uint32_t i = 1; i < FLOOD; i++)
        cr_assert_eq(flood[i].n_tokens, N_NEW);
    gen_rig_close(&rig);
}

/* One step of priority counts as RIG_AGING_MS of waiting. */
static uint32_t n_before_the_low_one(uint64_t waited_ms)
{
    struct gen_rig rig;
    static struct rig_client flood[FLOOD];
    struct rig_client low = {0}, first = {0};
    for (uint32_t i = 0; i < FLOOD; i++)
        flood[i] = (struct rig_client){0};
    gen_rig_open(&rig, NARROW);
    ask(&rig, &first, (struct standing){0});
    gen_rig_step(&rig);
    ask(&rig, &low, (struct standing){.priority = -2});
    gen_rig_step(&rig);
    rig.now_ns += waited_ms * NS_PER_MS;
    for (uint32_t i = 0; i < FLOOD; i++)
        ask(&rig, &flood[i], (struct standing){.priority = 2});
    step_until_finished(&rig, &low);
    uint32_t n = n_finished(flood, FLOOD);
    gen_rig_settle(&rig);
    gen_rig_close(&rig);
    return n;
}

Test(standing, a_request_of_low_priority_ages)
{
    cr_assert_eq(n_before_the_low_one(4 * RIG_AGING_MS - 1), FLOOD);
    cr_assert_eq(n_before_the_low_one(4 * RIG_AGING_MS + 1), 0);
}

Test(standing, a_flood_of_one_tenant_keeps_no_other_waiting)
{
    struct gen_rig rig;
    static struct rig_client flood[FLOOD], other;
    gen_rig_open(&rig, NARROW);
    for (uint32_t i = 0; i < FLOOD; i++)
        ask(&rig, &flood[i], (struct standing){.tenant = ONE, .priority = 100});
    gen_rig_step(&rig);
    ask(&rig, &other, (struct standing){.tenant = OTHER});
    step_until_finished(&rig, &other);
    cr_assert_leq(n_finished(flood, FLOOD), 1, "priority is within a tenant");
    gen_rig_settle(&rig);
    gen_rig_close(&rig);
}

/* Both always want more. schedule.h: they differ by at most 2 * U / smaller weight, where U is the work of a tenant's admitted
 * requests, here one request. */
Test(standing, two_tenants_are_served_by_their_weights)
{
    enum { N_EACH = 15 };
    struct gen_rig rig;
    static struct rig_client light[N_EACH], heavy[N_EACH];
    const uint32_t longest = N_PROMPT + N_NEW - 1;
    gen_rig_open(&rig, NARROW);
    for (uint32_t i = 0; i < N_EACH; i++) {
        ask(&rig, &light[i], (struct standing){.tenant = ONE, .weight = 1});
        ask(&rig, &heavy[i], (struct standing){.tenant = OTHER, .weight = 3});
    }
    while (n_finished(heavy, N_EACH) < N_EACH - 1 && n_finished(light, N_EACH) < N_EACH - 1) {
        gen_rig_step(&rig);
        uint32_t of_light = n_finished(light, N_EACH) * longest;
        uint32_t of_heavy = n_finished(heavy, N_EACH) * longest;
        uint32_t apart = of_light * 3 > of_heavy ? of_light * 3 - of_heavy
                                                 : of_heavy - of_light * 3; /* times 3 */
        cr_assert_leq(apart, 3 * 2 * longest, "%u and %u tokens", of_light, of_heavy);
    }
    cr_assert_eq(n_finished(heavy, N_EACH), N_EACH - 1);
    cr_assert(n_finished(light, N_EACH) >= 4 && n_finished(light, N_EACH) <= 5, "a third: %u",
              n_finished(light, N_EACH));
    gen_rig_settle(&rig);
    gen_rig_close(&rig);
}

/* A paused request keeps its sequence while it waits, even behind others. */
Test(standing, who_is_paused_goes_on_beside_tenants_that_were_served_less)
{
    const struct gen_rig_options tight = {.n_blocks = 9,
                                          .sequences_max = 2,
                                          .queue_max = 8,
                                          .prefills_max = 4,
                                          .policy = SCHEDULE_MAX_UTILIZATION};
    struct gen_rig rig;
    static struct rig_client all[8];
    struct gen_engine_stats stats;
    gen_rig_open(&rig, tight);
    for (uint32_t i = 0; i < 2; i++) {
        const struct sampling_params sampling = gen_rig_sampling(40);
        char name[4] = {'p', (char)('0' + i)};
        struct gen_request request = gen_rig_request(name, i, 16, &sampling);
        request.context_worker = "";
        cr_assert_eq(gen_engine_generate(rig.engine, &all[i], &request, NULL), STATUS_OK);
    }
    do {
        gen_rig_step(&rig);
        gen_engine_read_stats(rig.engine, &stats);
    } while (stats.paused == 0);
    for (uint32_t i = 2; i < 8; i++)
        ask(&rig, &all[i], (struct standing){.tenant = i, .priority = 100});
    gen_rig_settle(&rig);
    for (uint32_t i = 0; i < 8; i++)
        expect_ended(&all[i], STATUS_OK);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(standing, goes_on_to_the_context_worker)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    const struct sampling_params sampling = gen_rig_sampling(4);
    struct gen_request request = gen_rig_request("a", 1, 40, &sampling);
    request.input.standing = (struct standing){.tenant = 9, .weight = 3, .priority = -7};
    gen_rig_open(&rig, ROOMY);
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
    gen_rig_step(&rig);
    cr_assert_eq(rig.n_starts, 1);
    cr_assert_eq(rig.standing.tenant, 9);
    cr_assert_eq(rig.standing.weight, 3);
    cr_assert_eq(rig.standing.priority, -7);
    gen_rig_end(&rig, STATUS_PEER_LOST);
    gen_rig_settle(&rig);
    gen_rig_close(&rig);
}

Test(standing, out_of_range_is_refused)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    struct error error = {""};
    const struct sampling_params sampling = gen_rig_sampling(4);
    struct gen_request request = gen_rig_request("a", 1, 8, &sampling);
    gen_rig_open(&rig, ROOMY);
    request.input.standing.weight = 1001;
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "standing.weight is 1001, wanted 0 to 1000");
    request.input.standing = (struct standing){.priority = -101};
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, &error),
                 STATUS_INVALID_ARGUMENT);
    gen_rig_close(&rig);
}
