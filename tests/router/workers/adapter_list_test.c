/* adapter_list: a name is that of a ready worker's adapter before any other's, and no worker with another model adds one. */
#include "router/workers/adapter_list.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct model_card cards[3], served;

enum { NO_MODEL, MODEL, OTHER };

/* The digest is that of all its adapters. */
static void tell(struct model_card *card, uint64_t model, uint64_t digest, const char *names)
{
    *card = (struct model_card){.has_geometry = model != NO_MODEL};
    card->geometry.model_digest[0] = model;
    for (; *names; names++) {
        struct adapter_id *id = &card->adapters[card->n_adapters++];
        *id = (struct adapter_id){.name = {*names}, .digest = {digest}};
    }
}

static void expect(bool is_ready[3], const char *expected)
{
    struct adapter_teller tellers[3];
    char text[64] = "";
    size_t at = 0;
    for (int i = 0; i < 3; i++)
        tellers[i] = (struct adapter_teller){&cards[i], is_ready[i]};
    tell(&served, MODEL, 9, "z"); /* what was listed before is forgotten */
    adapter_list_make(tellers, 3, &served);
    for (uint32_t i = 0; i < served.n_adapters; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%u ", served.adapters[i].name,
                               (unsigned)served.adapters[i].digest[0]);
    cr_expect_str_eq(text, expected);
}

Test(adapter_list, ready_workers_come_before_those_that_may_come_back)
{
    tell(&cards[0], MODEL, 1, "ab");
    tell(&cards[1], MODEL, 2, "bc");
    tell(&cards[2], MODEL, 3, "cd");
    expect((bool[3]){true, true, true}, "a1 b1 c2 d3 ");
    expect((bool[3]){false, true, true}, "b2 c2 d3 a1 ");
    expect((bool[3]){false, false, true}, "c3 d3 a1 b1 ");
    expect((bool[3]){false, false, false}, "a1 b1 c2 d3 ");
}

Test(adapter_list, a_worker_with_another_model_adds_none)
{
    tell(&cards[0], OTHER, 1, "ab");
    tell(&cards[1], MODEL, 2, "b");
    tell(&cards[2], NO_MODEL, 3, "c");
    expect((bool[3]){false, true, false}, "b2 ");
    expect((bool[3]){false, false, false}, "b2 ");
}

Test(adapter_list, no_more_than_a_card_has_room_for)
{
    for (int c = 0; c < 3; c++) {
        tell(&cards[c], MODEL, 1, "");
        cards[c].n_adapters = ADAPTERS_MAX;
        for (uint32_t i = 0; i < ADAPTERS_MAX; i++)
            snprintf(cards[c].adapters[i].name, sizeof cards[c].adapters[i].name, "%d.%u", c, i);
    }
    const struct adapter_teller tellers[] = {{&cards[0], false}, {&cards[1], true}};
    tell(&served, MODEL, 1, "");
    adapter_list_make(tellers, 2, &served);
    cr_assert_eq(served.n_adapters, ADAPTERS_MAX);
    cr_assert_str_eq(served.adapters[0].name, "1.0");
    cr_assert_str_eq(served.adapters[ADAPTERS_MAX - 1].name, "1.63");
}
