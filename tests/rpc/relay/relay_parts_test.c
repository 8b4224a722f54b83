/* relay's small parts: budgets owe what was taken too much, networks are what they say, addresses are
 * remembered, streams are found, and the earliest time comes first. */
#include "base/clock.h"
#include "base/random.h"
#include "rpc/relay/address_book.h"
#include "rpc/relay/budget.h"
#include "rpc/relay/network.h"
#include "rpc/relay/open_streams.h"
#include "rpc/relay/peer_table.h"
#include "rpc/relay/timer_heap.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* ---- budget ---- */

static const struct budget_rate TEN_A_SECOND = {.per_s = 10, .store_s = 2, .debt_s = 3};

Test(relay_budget, is_full_at_first_and_fills_with_time)
{
    struct budget budget = {0};
    uint64_t now_ns = 5 * NS_PER_S;
    cr_expect_eq(budget_take(&budget, &TEN_A_SECOND, 20, now_ns), 0);
    cr_expect_neq(budget_take(&budget, &TEN_A_SECOND, 1, now_ns), 0);
    now_ns += NS_PER_S;
    cr_expect_eq(budget_take(&budget, &TEN_A_SECOND, 9, now_ns), 0);
    cr_expect_float_eq(budget_level(&budget, &TEN_A_SECOND, now_ns + 100 * NS_PER_S), 20, 1e-9,
                       "no more than its store");
}

Test(relay_budget, says_when_a_debt_is_paid_and_forgets_what_nobody_can_pay)
{
    struct budget budget = {0};
    uint64_t wait_ns = budget_take(&budget, &TEN_A_SECOND, 25, NS_PER_S);
    cr_expect(wait_ns >= NS_PER_S / 2 && wait_ns <= NS_PER_S / 2 + 2);
    cr_expect_geq(budget_level(&budget, &TEN_A_SECOND, NS_PER_S + wait_ns), 0);
    wait_ns = budget_take(&budget, &TEN_A_SECOND, 1000000, NS_PER_S + wait_ns);
    cr_expect_leq(wait_ns, 3 * NS_PER_S + 1);
}

/* ---- network ---- */

static struct network_address address_of(const char *text)
{
    struct network_list list;
    struct error error = {""};
    cr_assert_eq(network_list_read(text, &list, &error), STATUS_OK, "%s", error.text);
    return list.networks[0].address;
}

static bool is_in(const char *networks, const char *address)
{
    struct network_list list;
    struct error error = {""};
    struct network_address bytes = address_of(address);
    cr_assert_eq(network_list_read(networks, &list, &error), STATUS_OK, "%s", error.text);
    return network_list_has(&list, &bytes);
}

Test(relay_network, bits_decide)
{
    cr_expect(is_in("10.0.0.0/8", "10.255.3.4"));
    cr_expect_not(is_in("10.0.0.0/8", "11.0.0.0"));
    cr_expect(is_in("10.1.2.128/25", "10.1.2.200"));
    cr_expect_not(is_in("10.1.2.128/25", "10.1.2.127"));
    cr_expect(is_in("1.2.3.4", "1.2.3.4"));
    cr_expect_not(is_in("1.2.3.4", "1.2.3.5"));
    cr_expect(is_in("::1, fd00::/8,9.9.9.9", "fd12::7"));
    cr_expect_not(is_in("fd00::/8", "fe00::1"));
    cr_expect(is_in("0.0.0.0/0", "1.2.3.4"));
    cr_expect_not(is_in("0.0.0.0/0", "::1"), "IPv4 alone");
    cr_expect(is_in("::/0", "1.2.3.4"), "all there is");
    cr_expect_not(is_in(" , ", "1.2.3.4"), "an empty list");
}

Test(relay_network, what_is_none_is_named)
{
    static const char *const WRONG[] = {"10.0.0.0/33", "10.0.0",    "::1/129",
                                        "localhost",   "10.0.0.0/", "1.2.3.4/8x"};
    struct network_list list;
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        struct error error = {""};
        cr_expect_eq(network_list_read(WRONG[i], &list, &error), STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, WRONG[i]), "%s", error.text);
    }
    char many[NETWORK_LIST_MAX * 8 + 16] = "";
    for (int i = 0; i <= NETWORK_LIST_MAX; i++)
        strncat(many, "1.1.1.1,", sizeof many - strlen(many) - 1);
    cr_expect_eq(network_list_read(many, &list, NULL), STATUS_INVALID_ARGUMENT);
}

/* ---- address_book ---- */

static struct network_address numbered(uint32_t i)
{
    char text[32];
    snprintf(text, sizeof text, "10.%u.%u.%u", i >> 16 & 255, i >> 8 & 255, i & 255);
    return address_of(text);
}

Test(relay_address_book, an_address_finds_its_entry_again_with_its_debts)
{
    struct network_list exempt = {.n = 0};
    struct address_book *book;
    cr_assert_eq(address_book_create(&exempt, &book), STATUS_OK);
    struct network_address here = address_of("10.0.0.1"), there = address_of("10.0.0.2");
    struct address_entry *first = address_book_enter(book, &here);
    struct address_entry *second = address_book_enter(book, &here);
    struct address_entry *other = address_book_enter(book, &there);
    cr_expect(first == second && first != other && first->n_connections == 2);
    (void)budget_take(&first->resets, &TEN_A_SECOND, 30, NS_PER_S);
    address_book_leave(book, first);
    address_book_leave(book, first);
    address_book_leave(book, other);
    cr_expect_eq(address_book_n_quiet(book), 2);
    first = address_book_enter(book, &here);
    cr_expect_eq(first->n_connections, 1);
    cr_expect_lt(budget_level(&first->resets, &TEN_A_SECOND, NS_PER_S), 0,
                 "reconnecting is no help");
    address_book_leave(book, first);
    address_book_destroy(book);
}

Test(relay_address_book, an_ipv6_network_is_one_address_but_for_those_exempt)
{
    struct network_list exempt;
    struct address_book *book;
    cr_assert_eq(network_list_read("2001:db8::9", &exempt, NULL), STATUS_OK);
    cr_assert_eq(address_book_create(&exempt, &book), STATUS_OK);
    struct network_address a = address_of("2001:db8::1"), b = address_of("2001:db8::2"),
                           c = address_of("2001:db8:0:1::1"), d = address_of("2001:db8::9");
    struct address_entry *entry = address_book_enter(book, &a);
    cr_expect_eq(address_book_enter(book, &b), entry);
    struct address_entry *far = address_book_enter(book, &c), *free = address_book_enter(book, &d);
    struct address_entry *local = address_book_enter(book, NULL);
    cr_expect(far != entry && free != entry && free->is_exempt && !entry->is_exempt);
    cr_expect(local->is_exempt, "a Unix socket's peer");
    address_book_leave(book, entry);
    address_book_leave(book, entry);
    address_book_leave(book, far);
    address_book_leave(book, free);
    address_book_leave(book, local);
    address_book_destroy(book);
}

Test(relay_address_book, those_left_longest_are_forgotten)
{
    enum { N = ADDRESS_BOOK_QUIET_MAX + 100 };
    struct network_list exempt = {.n = 0};
    struct address_book *book;
    cr_assert_eq(address_book_create(&exempt, &book), STATUS_OK);
    for (uint32_t i = 0; i < N; i++) {
        struct network_address address = numbered(i);
        struct address_entry *entry = address_book_enter(book, &address);
        (void)budget_take(&entry->resets, &TEN_A_SECOND, 30, NS_PER_S);
        address_book_leave(book, entry);
    }
    cr_expect_eq(address_book_n_quiet(book), ADDRESS_BOOK_QUIET_MAX);
    struct network_address oldest = numbered(0), newest = numbered(N - 1);
    struct address_entry *old = address_book_enter(book, &oldest);
    struct address_entry *new = address_book_enter(book, &newest);
    cr_expect_gt(budget_level(&old->resets, &TEN_A_SECOND, NS_PER_S), 0);
    cr_expect_lt(budget_level(&new->resets, &TEN_A_SECOND, NS_PER_S), 0);
    address_book_leave(book, old);
    address_book_leave(book, new);
    address_book_destroy(book);
}

/* ---- open_streams ---- */

Test(relay_open_streams, are_found_whichever_have_gone)
{
    enum { N = 300 };
    struct open_streams streams = {0};
    struct random random;
    bool is_there[N];
    random_init(&random, 1);
    for (uint32_t i = 0; i < N; i++) {
        cr_assert_not_null(open_streams_add(&streams, 2 * i + 1));
        is_there[i] = true;
    }
    for (uint32_t n_left = N; n_left > 0; n_left--) {
        uint32_t gone = (uint32_t)random_below(&random, N);
        while (!is_there[gone])
            gone = (gone + 1) % N;
        open_streams_remove(&streams, open_streams_find(&streams, 2 * gone + 1));
        is_there[gone] = false;
        for (uint32_t i = 0; i < N; i++) {
            const struct open_stream *found = open_streams_find(&streams, 2 * i + 1);
            cr_assert(is_there[i] ? found && found->id == 2 * i + 1 : !found);
            cr_assert_null(open_streams_find(&streams, 2 * i + 2));
        }
    }
    open_streams_finish(&streams);
}

/* ---- timer_heap ---- */

Test(relay_timer_heap, the_earliest_is_first_however_they_are_moved)
{
    enum { N = 64, N_STEPS = 20000 };
    struct timer timers[N] = {{0}};
    struct timer_heap heap;
    struct random random;
    random_init(&random, 7);
    cr_assert_eq(timer_heap_init(&heap, N), STATUS_OK);
    cr_expect_null(timer_heap_first(&heap));
    for (uint32_t step = 0; step < N_STEPS; step++) {
        struct timer *timer = &timers[random_below(&random, N)];
        if (random_below(&random, 3) == 0)
            timer_heap_clear(&heap, timer);
        else
            timer_heap_set(&heap, timer, random_below(&random, 1000));
        uint64_t least = UINT64_MAX;
        for (uint32_t i = 0; i < N; i++)
            if (timers[i].place > 0 && timers[i].due_ns < least)
                least = timers[i].due_ns;
        const struct timer *first = timer_heap_first(&heap);
        cr_assert(first ? first->due_ns == least : least == UINT64_MAX);
    }
    timer_heap_finish(&heap);
}

/* ---- peer_table ---- */

Test(relay_peer_table, a_peer_is_found_by_the_descriptor_in_the_cores_name)
{
    struct rpc_peer peer = {.address = "ipv4:1.2.3.4:5", .identity = "x"}, found;
    cr_assert_eq(peer_table_set(700, &peer), STATUS_OK);
    cr_assert(peer_table_find("fd:700", &found));
    cr_expect_str_eq(found.address, "ipv4:1.2.3.4:5");
    static const char *const NOBODY[] = {
        "fd:701", "fd:", "fd:7x", "ipv4:1.2.3.4:700", "fd:-700", "", "fd:99999999999999999999"};
    for (size_t i = 0; i < sizeof NOBODY / sizeof *NOBODY; i++)
        cr_expect_not(peer_table_find(NOBODY[i], &found), "%s", NOBODY[i]);
    snprintf(peer.address, sizeof peer.address, "unix:");
    cr_assert_eq(peer_table_set(700, &peer), STATUS_OK);
    cr_assert(peer_table_find("fd:700", &found));
    cr_expect_str_eq(found.address, "unix:", "the next one with that descriptor");
}
