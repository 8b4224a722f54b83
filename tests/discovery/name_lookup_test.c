/* name_lookup: tells the addresses of a name as the system knows them, with the port, and stops at once. */
#include "base/clock.h"
#include "base/cond.h"
#include "discovery/name_lookup.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct heard {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t n_calls, n_addresses;
    bool has_v4;
};

static void on_change(void *arg, const char *const *addresses, uint32_t n)
{
    struct heard *heard = arg;
    pthread_mutex_lock(&heard->mutex);
    heard->n_calls++;
    heard->n_addresses = n;
    for (uint32_t i = 0; i < n; i++)
        heard->has_v4 |= strcmp(addresses[i], "127.0.0.1:7000") == 0;
    pthread_cond_signal(&heard->changed);
    pthread_mutex_unlock(&heard->mutex);
}

static struct name_lookup *start(struct heard *heard, const char *host, uint64_t interval_ns)
{
    struct name_lookup *lookup;
    *heard = (struct heard){.mutex = PTHREAD_MUTEX_INITIALIZER};
    cond_init(&heard->changed);
    const struct name_lookup_options options = {.host = host,
                                                .port = 7000,
                                                .interval_ns = interval_ns,
                                                .on_change = on_change,
                                                .arg = heard};
    cr_assert_eq(name_lookup_start(&options, &lookup), STATUS_OK);
    return lookup;
}

Test(name_lookup, tells_every_address_with_the_port_once)
{
    struct heard heard;
    struct name_lookup *lookup = start(&heard, "localhost", NS_PER_MS);
    uint64_t until_ns = clock_now_ns() + 20 * NS_PER_S;
    pthread_mutex_lock(&heard.mutex);
    while (heard.n_calls == 0 && clock_now_ns() < until_ns)
        cond_wait_until(&heard.changed, &heard.mutex, until_ns);
    pthread_mutex_unlock(&heard.mutex);
    for (int i = 0; i < 10; i++)
        name_lookup_hurry(lookup);
    name_lookup_stop(lookup);
    cr_assert_eq(heard.n_calls, 1, "it did not change");
    cr_assert(heard.has_v4);
    cr_assert(heard.n_addresses == 1 || heard.n_addresses == 2, "with or without ::1");
}

Test(name_lookup, a_name_that_is_none_is_no_change_and_stops_whatever_it_is_at)
{
    for (int i = 0; i < 20; i++) {
        struct heard heard;
        struct name_lookup *lookup = start(&heard, "no.such.host.invalid", NS_PER_S);
        name_lookup_stop(lookup);
        cr_assert_eq(heard.n_calls, 0);
    }
    name_lookup_stop(NULL);
}
