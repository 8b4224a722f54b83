/* worker_list: each kind of entry is told from the others, and what is none is refused by its name. */
#include "router/workers/worker_list.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct worker_list list; /* too large for a stack */
static struct error error;

static enum status read_list(const char *text)
{
    memset(&list, 0, sizeof list);
    error.text[0] = '\0';
    return worker_list_read(&list, WORKER_CONTEXT, "context_workers", text, &error);
}

Test(worker_list, tells_addresses_names_and_services_apart)
{
    cr_assert_eq(
        read_list("10.0.0.7:50052, [fd00::7]:1,[fe80::1%eth0]:2 unix:/run/w,:8080,"
                  "ctx.prod.svc:50052,localhost:7,k8s:///prod/ctx,k8s:///prod/ctx-2:control,"
                  "k8s:///p/c:50052"),
        STATUS_OK, "%s", error.text);
    static const struct {
        enum worker_entry_kind kind;
        const char *text;
    } EXPECTED[] = {
        {ENTRY_ADDRESS, "10.0.0.7:50052"},
        {ENTRY_ADDRESS, "[fd00::7]:1"},
        {ENTRY_ADDRESS, "[fe80::1%eth0]:2"},
        {ENTRY_ADDRESS, "unix:/run/w"},
        {ENTRY_ADDRESS, "127.0.0.1:8080"},
        {ENTRY_NAME, "ctx.prod.svc:50052"},
        {ENTRY_NAME, "localhost:7"},
        {ENTRY_SERVICE, "k8s:///prod/ctx"},
        {ENTRY_SERVICE, "k8s:///prod/ctx-2:control"},
        {ENTRY_SERVICE, "k8s:///p/c:50052"},
    };
    cr_assert_eq(list.n, sizeof EXPECTED / sizeof *EXPECTED);
    cr_assert_eq(list.n_watched, 5);
    for (uint32_t i = 0; i < list.n; i++) {
        cr_assert_eq(list.entries[i].kind, EXPECTED[i].kind, "%s", list.entries[i].text);
        cr_assert_str_eq(list.entries[i].text, EXPECTED[i].text);
        cr_assert_eq(list.entries[i].role, WORKER_CONTEXT);
    }
    cr_assert_str_eq(list.entries[5].address.host, "ctx.prod.svc");
    cr_assert_eq(list.entries[5].address.port, 50052);
    cr_assert_str_eq(list.entries[8].service.name_space, "prod");
    cr_assert_str_eq(list.entries[8].service.service, "ctx-2");
    cr_assert_str_eq(list.entries[9].service.port, "50052");
}

static const struct {
    const char *text, *sentence;
} WRONG[] = {
    {"host", "context_workers: address \"host\": no port"},
    {"a:1,10.0.0.1:x", "context_workers: address \"10.0.0.1:x\": \"x\" is not a port (0 .. 65535)"},
    {"a:1,b:2,a:1", "context_workers: worker \"a:1\" is named twice"},
    {"127.0.0.1:80,:80", "context_workers: worker \"127.0.0.1:80\" is named twice"},
    {"k8s:///Prod/ctx", "context_workers: \"k8s:///Prod/ctx\": namespace \"Prod\" is not a name in "
                        "Kubernetes (1 to 63 of a-z 0-9 -, no - at an end)"},
    {"k8s:///p/c,k8s:///p/c", "context_workers: worker \"k8s:///p/c\" is named twice"},
};

Test(worker_list, what_is_no_worker_is_named)
{
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        cr_assert_eq(read_list(WRONG[i].text), STATUS_INVALID_ARGUMENT, "%s", WRONG[i].text);
        cr_assert_str_eq(error.text, WRONG[i].sentence);
    }
}

/* n entries of that kind, "," between them. */
static char *many(const char *format, uint32_t n)
{
    char *text = calloc(n, 32);
    size_t used = 0;
    cr_assert(text);
    for (uint32_t i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, 32, "%s", i ? "," : "");
        used += (size_t)snprintf(text + used, 31, format, i + 1);
    }
    return text;
}

static void expect_bound(const char *format, uint32_t n, const char *sentence)
{
    char *text = many(format, n);
    cr_assert_eq(read_list(text), STATUS_OK, "%s", error.text);
    free(text);
    text = many(format, n + 1);
    cr_assert_eq(read_list(text), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, sentence);
    free(text);
}

Test(worker_list, has_bounds)
{
    expect_bound("127.0.0.1:%u", 256, "context_workers: more than 256 workers");
    expect_bound("n%u.example:1", 32, "context_workers: more than 32 names and services");
}

Test(worker_list, both_roles_share_the_bounds_and_may_share_an_address)
{
    cr_assert_eq(read_list("10.0.0.1:1"), STATUS_OK);
    cr_assert_eq(
        worker_list_read(&list, WORKER_GENERATION, "generation_workers", "10.0.0.1:1", &error),
        STATUS_OK);
    cr_assert_eq(list.n, 2);
}
