/* tenants: who enters, what it costs and what comes back, in virtual time; a file that changes keeps what tenants have
 * left; the salts of tenants never meet, unless they share a group. */
#include "base/clock.h"
#include "base/random.h"
#include "router/admission/tenants.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t START_NS = 1000 * NS_PER_S;
static char path[] = "/tmp/tenants.XXXXXX";
static struct tenants *tenants;
static struct tenant_refusal refusal;

static void write_rows(const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "tokens:\n%s", text);
    fclose(file);
}

/* A row of the token that is the tenant's name with that number. */
static const char *row(const char *tenant, int number, const char *more)
{
    static char rows[8][512];
    static unsigned n;
    char token[64], hash[SHA256_TEXT];
    struct sha256 sha;
    snprintf(token, sizeof token, "%s-%d", tenant, number);
    cr_assert_eq(sha256_of(token, strlen(token), &sha), STATUS_OK);
    sha256_format(&sha, hash);
    char *out = rows[n++ % 8];
    snprintf(out, sizeof rows[0], "- {tenant: %s, sha256: %s%s%s}\n", tenant, hash,
             more[0] ? ", " : "", more);
    return out;
}

static void open_with(const char *first, const char *second)
{
    char text[1024];
    struct error error = {0};
    struct tenants_options options = {.path = path, .salt_key = {{1, 2, 3}}};
    snprintf(text, sizeof text, "%s%s", first, second);
    close(mkstemp(path));
    write_rows(text);
    cr_assert_eq(tenants_create(&options, START_NS, &error, &tenants), STATUS_OK, "%s", error.text);
}

static void close_all(void)
{
    tenants_destroy(tenants);
    unlink(path);
}

static enum status enter(const char *token, enum tenant_method method, uint64_t now_ns,
                         struct tenant_pass **pass_out)
{
    const struct tenant_claim claim = {
        .token = token, .token_bytes = token ? strlen(token) : 0, .tenant = ""};
    return tenants_enter(tenants, &claim, method, now_ns, pass_out, &refusal);
}

static struct tenant_pass *must_enter(const char *token, uint64_t now_ns)
{
    struct tenant_pass *pass;
    cr_assert_eq(enter(token, TENANT_GENERATE, now_ns, &pass), STATUS_OK, "%s", refusal.sentence);
    return pass;
}

Test(tenants, only_a_known_token_enters_and_only_what_it_may)
{
    struct tenant_pass *pass;
    open_with(row("acme", 1, "methods: [Generate]"), row("acme", 2, ""));
    cr_assert_eq(enter(NULL, TENANT_GENERATE, START_NS, &pass), STATUS_UNAUTHENTICATED);
    cr_assert_eq(enter("", TENANT_GENERATE, START_NS, &pass), STATUS_UNAUTHENTICATED);
    cr_assert_eq(enter("acme-3", TENANT_GENERATE, START_NS, &pass), STATUS_UNAUTHENTICATED);
    cr_assert_eq(enter("acme-1", TENANT_COMPLETE, START_NS, &pass), STATUS_NOT_ALLOWED);
    cr_assert_eq(enter("acme-2", TENANT_REFLECTION, START_NS, &pass), STATUS_NOT_ALLOWED);
    cr_assert_eq(enter("acme-2", TENANT_N_METHODS, START_NS, &pass), STATUS_NOT_ALLOWED);
    cr_assert_eq(enter("acme-2", TENANT_COMPLETE, START_NS, &pass), STATUS_OK);
    cr_assert_str_eq(tenant_pass_name(pass), "acme");
    tenant_pass_destroy(pass, START_NS);
    tenant_pass_destroy(must_enter("acme-1", START_NS), START_NS);
    close_all();
}

Test(tenants, both_tokens_of_a_tenant_use_one_quota)
{
    struct tenant_pass *pass;
    open_with(row("acme", 1, "requests_per_second: 2"), row("acme", 2, "requests_per_second: 2"));
    tenant_pass_destroy(must_enter("acme-1", START_NS), START_NS);
    tenant_pass_destroy(must_enter("acme-2", START_NS), START_NS);
    cr_assert_eq(enter("acme-1", TENANT_GENERATE, START_NS, &pass), STATUS_QUOTA);
    cr_assert_eq(refusal.wait_ns, NS_PER_S / 2);
    cr_assert_eq(enter("acme-2", TENANT_GENERATE, START_NS + refusal.wait_ns - 1, &pass),
                 STATUS_QUOTA);
    tenant_pass_destroy(must_enter("acme-2", START_NS + NS_PER_S / 2), START_NS);
    close_all();
}

Test(tenants, places_at_once_come_back_when_the_end_is_decided)
{
    struct tenant_pass *first, *second, *third;
    open_with(row("acme", 1, "requests_at_once: 2"), row("other", 1, "requests_at_once: 1"));
    first = must_enter("acme-1", START_NS);
    second = must_enter("acme-1", START_NS);
    cr_assert_eq(enter("acme-1", TENANT_GENERATE, START_NS, &third), STATUS_QUOTA);
    cr_assert_gt(refusal.wait_ns, 0);
    tenant_pass_destroy(must_enter("other-1", START_NS), START_NS); /* not its concern */
    tenant_pass_leave(first);
    tenant_pass_leave(first);
    third = must_enter("acme-1", START_NS);
    tenant_pass_destroy(first, START_NS);
    cr_assert_eq(enter("acme-1", TENANT_GENERATE, START_NS, &first), STATUS_QUOTA,
                 "a place that was left is not given back again");
    tenant_pass_destroy(second, START_NS);
    tenant_pass_destroy(third, START_NS);
    close_all();
}

static enum status enter_as(const char *token, const char *tenant, enum tenant_method method)
{
    const struct tenant_claim claim = {
        .token = token, .token_bytes = token ? strlen(token) : 0, .tenant = tenant};
    struct tenant_pass *pass;
    enum status status = tenants_enter(tenants, &claim, method, START_NS, &pass, &refusal);
    if (status == STATUS_OK)
        tenant_pass_destroy(pass, START_NS);
    return status;
}

Test(tenants, a_certificate_is_as_good_as_a_token_of_its_tenant)
{
    open_with(row("acme", 1, "requests_per_second: 2, methods: [Tokenize]"), row("other", 1, ""));
    cr_assert_eq(enter_as(NULL, "acme", TENANT_TOKENIZE), STATUS_OK);
    cr_assert_eq(enter_as(NULL, "acme", TENANT_GENERATE), STATUS_NOT_ALLOWED);
    cr_assert_eq(enter_as(NULL, "nobody", TENANT_TOKENIZE), STATUS_UNAUTHENTICATED);
    cr_assert_eq(enter_as("acme-1", "other", TENANT_TOKENIZE), STATUS_NOT_ALLOWED);
    cr_assert_eq(enter_as("wrong", "acme", TENANT_TOKENIZE), STATUS_UNAUTHENTICATED);
    cr_assert_eq(enter_as("acme-1", "acme", TENANT_TOKENIZE), STATUS_OK);
    cr_assert_eq(enter_as(NULL, "acme", TENANT_TOKENIZE), STATUS_QUOTA); /* it is one tenant */
    close_all();
}

Test(tenants, tokens_are_reserved_and_what_was_not_generated_comes_back)
{
    open_with(row("acme", 1, "tokens_per_minute: 600"), "");
    struct tenant_pass *first = must_enter("acme-1", START_NS);
    struct tenant_pass *second = must_enter("acme-1", START_NS);
    cr_assert_eq(tenant_pass_reserve(first, 100, 400, START_NS, &refusal), STATUS_OK);
    cr_assert_eq(tenant_pass_reserve(second, 100, 101, START_NS, &refusal), STATUS_QUOTA);
    cr_assert_eq(refusal.wait_ns, 101 * NS_PER_S / 10);
    tenant_pass_settle(first, true, 50, START_NS);
    tenant_pass_settle(first, true, 0, START_NS);
    cr_assert_eq(tenant_pass_reserve(second, 100, 351, START_NS, &refusal), STATUS_QUOTA,
                 "150 are gone");
    cr_assert_eq(tenant_pass_reserve(second, 100, 350, START_NS, &refusal), STATUS_OK);
    tenant_pass_destroy(second, START_NS); /* no worker was asked */
    second = must_enter("acme-1", START_NS);
    cr_assert_eq(tenant_pass_reserve(second, 100, 350, START_NS, &refusal), STATUS_OK);
    tenant_pass_destroy(second, START_NS);
    tenant_pass_destroy(first, START_NS);
    close_all();
}

Test(tenants, a_changed_file_counts_at_once_and_a_broken_one_changes_nothing)
{
    struct tenant_pass *pass, *running;
    uint64_t now_ns = START_NS;
    open_with(row("acme", 1, "requests_at_once: 1"), row("gone", 1, ""));
    running = must_enter("acme-1", now_ns);
    struct tenant_pass *orphan = must_enter("gone-1", now_ns);

    write_rows("- {tenant: acme, sha256: nonsense}\n");
    cr_assert_not(tenants_look(tenants, now_ns += 2 * NS_PER_S));
    cr_assert_eq(enter("gone-1", TENANT_GENERATE, now_ns, &pass), STATUS_OK);
    tenant_pass_destroy(pass, now_ns);
    unlink(path);
    cr_assert_not(tenants_look(tenants, now_ns += 2 * NS_PER_S));
    tenant_pass_destroy(must_enter("gone-1", now_ns), now_ns);

    write_rows(row("acme", 2, "requests_at_once: 2"));
    cr_assert(tenants_look(tenants, now_ns += 2 * NS_PER_S));
    cr_assert_not(tenants_look(tenants, now_ns += 2 * NS_PER_S));
    cr_assert_eq(enter("acme-1", TENANT_GENERATE, now_ns, &pass), STATUS_UNAUTHENTICATED);
    cr_assert_eq(enter("gone-1", TENANT_GENERATE, now_ns, &pass), STATUS_UNAUTHENTICATED);
    pass = must_enter("acme-2", now_ns);
    struct tenant_pass *third;
    cr_assert_eq(enter("acme-2", TENANT_GENERATE, now_ns, &third), STATUS_QUOTA,
                 "the running call of before counts");
    tenant_pass_destroy(running, now_ns);
    tenant_pass_destroy(orphan, now_ns);
    tenant_pass_destroy(must_enter("acme-2", now_ns), now_ns);
    tenant_pass_destroy(pass, now_ns);
    close_all();
}

static struct tenant_terms terms_of(const char *token, uint64_t now_ns)
{
    struct tenant_terms terms;
    struct tenant_pass *pass = must_enter(token, now_ns);
    tenant_pass_terms(pass, &terms);
    tenant_pass_destroy(pass, now_ns);
    return terms;
}

Test(tenants, a_tenant_stands_among_others_as_its_row_says)
{
    uint64_t now_ns = START_NS, key;
    open_with(row("acme", 1, "weight: 3, priority: -5, priority_max: 10"), row("plain", 1, ""));
    struct tenant_terms acme = terms_of("acme-1", now_ns), plain = terms_of("plain-1", now_ns);
    cr_assert_eq(acme.standing.weight, 3);
    cr_assert_eq(acme.standing.priority, -5);
    cr_assert_eq(acme.priority_max, 10);
    cr_assert_eq(plain.standing.weight, 1);
    cr_assert_eq(plain.standing.priority, 0);
    cr_assert_eq(plain.priority_max, 0);
    cr_assert_neq(acme.standing.tenant, plain.standing.tenant);
    cr_assert_eq(tenant_key_of("acme", &key), STATUS_OK);
    cr_assert_eq(acme.standing.tenant, key, "whatever this router's secrets are");
    cr_assert_neq(key, 0);

    struct tenant_pass *running = must_enter("acme-1", now_ns);
    write_rows(row("acme", 1, "weight: 4"));
    cr_assert(tenants_look(tenants, now_ns += 2 * NS_PER_S));
    tenant_pass_terms(running, &acme);
    cr_assert_eq(acme.standing.weight, 4);
    cr_assert_eq(acme.priority_max, 0);
    cr_assert_eq(acme.standing.tenant, key);
    tenant_pass_destroy(running, now_ns);
    close_all();
}

static void salt_of(const char *token, const char *salt, char text_out[SHA256_TEXT])
{
    struct tenant_pass *pass = must_enter(token, START_NS);
    cr_assert_eq(tenant_pass_salt(pass, salt, text_out), STATUS_OK);
    tenant_pass_destroy(pass, START_NS);
}

Test(tenants, salts_meet_only_within_a_tenant_or_a_group)
{
    char a[SHA256_TEXT], b[SHA256_TEXT];
    open_with(row("acme", 1, ""), row("acme", 2, ""));
    salt_of("acme-1", "", a);
    salt_of("acme-2", "", b);
    cr_assert_str_eq(a, b, "two tokens of one tenant");
    salt_of("acme-1", "x", b);
    cr_assert_str_neq(a, b, "the client's own salt still keeps apart");
    close_all();

    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
    char group[SHA256_TEXT], other[SHA256_TEXT];
    open_with(row("acme", 1, "shares_prefix_cache: family"), row("family", 1, ""));
    salt_of("acme-1", "", group);
    salt_of("family-1", "", other);
    cr_assert_str_neq(group, a);
    cr_assert_str_neq(group, other, "a tenant that is called as a group is not in it");
    close_all();

    memcpy(path + strlen(path) - 6, "XXXXXX", 6);
    open_with(row("acme", 1, "shares_prefix_cache: family"),
              row("b", 1, "shares_prefix_cache: family"));
    salt_of("acme-1", "s", a);
    salt_of("b-1", "s", b);
    cr_assert_str_eq(a, b);
    close_all();
}

/* Requests of one tenant as a seed says, in virtual time: running ones never exceed their bound, the tokens used stay
 * within rate x time + capacity + the largest excess of a request, and a refused request is let in when it was told. */
static void try_seed(uint64_t seed)
{
    enum { N = 8 };
    struct random random;
    struct tenant_pass *live[N] = {0};
    uint32_t reserved[N] = {0}, n_live = 0;
    uint64_t now_ns = START_NS, used = 0, outstanding = 0;
    random_init(&random, seed);
    for (int step = 0; step < 500; step++) {
        uint32_t i = (uint32_t)random_below(&random, N);
        if (live[i]) {
            uint32_t n = (uint32_t)random_below(&random, reserved[i] + 1);
            tenant_pass_settle(live[i], true, n, now_ns);
            tenant_pass_destroy(live[i], now_ns);
            used += n + 10;
            outstanding -= reserved[i] + 10;
            live[i] = NULL;
            n_live--;
        } else if (enter("acme-1", TENANT_GENERATE, now_ns, &live[i]) == STATUS_OK) {
            reserved[i] = (uint32_t)random_below(&random, 500);
            n_live++;
            if (tenant_pass_reserve(live[i], 10, reserved[i], now_ns, &refusal) != STATUS_OK) {
                now_ns += refusal.wait_ns;
                cr_assert_eq(tenant_pass_reserve(live[i], 10, reserved[i], now_ns, &refusal),
                             STATUS_OK, "seed %llu", (unsigned long long)seed);
            }
            outstanding += reserved[i] + 10;
        } else {
            live[i] = NULL;
            now_ns += refusal.wait_ns;
        }
        cr_assert_leq(n_live, 4);
        double bound = 1000 + 1000.0 * (double)(now_ns - START_NS) / (60.0 * NS_PER_S);
        cr_assert_leq((double)(used + outstanding), bound + 1e-3, "seed %llu",
                      (unsigned long long)seed);
        now_ns += random_below(&random, 200 * NS_PER_MS);
    }
    for (uint32_t i = 0; i < N; i++)
        if (live[i])
            tenant_pass_destroy(live[i], now_ns);
}

Test(tenants, no_order_of_requests_gets_more_than_the_quotas)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        memcpy(path + strlen(path) - 6, "XXXXXX", 6);
        open_with(
            row("acme", 1, "requests_at_once: 4, tokens_per_minute: 1000, requests_per_second: 20"),
            "");
        try_seed(seed);
        close_all();
    }
}

static atomic_uint n_inside, n_most, n_entered;

static void *hammer(void *arg)
{
    (void)arg;
    const struct tenant_claim claim = {.token = "acme-1", .token_bytes = 6, .tenant = ""};
    struct tenant_refusal own;
    for (int i = 0; i < 2000; i++) {
        struct tenant_pass *pass;
        if (tenants_enter(tenants, &claim, TENANT_GENERATE, START_NS, &pass, &own) != STATUS_OK)
            continue;
        unsigned n = atomic_fetch_add(&n_inside, 1) + 1, most = atomic_load(&n_most);
        while (n > most && !atomic_compare_exchange_weak(&n_most, &most, n))
            ;
        atomic_fetch_add(&n_entered, 1);
        enum status status = tenant_pass_reserve(pass, 1, 1, START_NS, &own);
        cr_assert(status == STATUS_OK || status == STATUS_QUOTA);
        atomic_fetch_sub(&n_inside, 1);
        tenant_pass_destroy(pass, START_NS);
    }
    return NULL;
}

Test(tenants, threads_and_a_changing_file_never_pass_the_bound)
{
    pthread_t threads[8];
    open_with(row("acme", 1, "requests_at_once: 3"), "");
    for (int i = 0; i < 8; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, hammer, NULL), 0);
    for (uint64_t i = 1; i <= 20; i++) {
        write_rows(
            row("acme", 1,
                i % 2 ? "requests_at_once: 3, tokens_per_minute: 1000000" : "requests_at_once: 3"));
        (void)tenants_look(tenants, START_NS + 2 * i * NS_PER_S);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    cr_assert_leq(atomic_load(&n_most), 3);
    cr_assert_gt(atomic_load(&n_entered), 0);
    close_all();
}
