/* admin_service: calls that change adapters are an operator's, reach the role with name and folder, and are refused while it loads or
 * drains, and by a role without adapters. */
#include "rpc/tls/tls_identity.h"
#include "tests/process/support/admin_bed.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const struct adapter_id LAW = {.name = "law", .digest = {1, 2}};
static char loaded[64],
    unloaded[64]; /* of the role; read behind the count of calls, as their thread wrote it */
static atomic_uint n_asked;

static void load(void *arg, struct rpc_call *call, const char *name, const char *folder)
{
    cr_assert_eq(arg, &n_asked);
    snprintf(loaded, sizeof loaded, "%s from %s", name, folder);
    atomic_fetch_add(&n_asked, 1);
    admin_service_loaded(call, &LAW, 4711);
}

static void unload(void *arg, struct rpc_call *call, const char *name)
{
    cr_assert_eq(arg, &n_asked);
    snprintf(unloaded, sizeof unloaded, "no %s", name);
    atomic_fetch_add(&n_asked, 1);
    admin_service_unloaded(call, 42);
}

static struct admin_bed *open_bed(bool has_adapters)
{
    static struct admin_bed bed;
    if (has_adapters)
        bed.service = (struct admin_service){
            .load_adapter = load, .unload_adapter = unload, .arg = &n_asked};
    admin_bed_open(&bed);
    return &bed;
}

Test(admin_service, an_adapter_is_loaded_and_unloaded_by_the_role)
{
    struct admin_bed *bed = open_bed(true);
    struct admin_answer answer;
    cr_assert_eq(admin_bed_load(bed, "law", "law-2026", &answer), STATUS_OK, "%s",
                 answer.error.message);
    cr_assert_eq(atomic_load(&n_asked), 1);
    cr_expect_str_eq(loaded, "law from law-2026");
    cr_expect_str_eq(answer.name, "law");
    cr_expect_eq(strlen(answer.digest), ADAPTER_DIGEST_BYTES - 1);
    cr_expect_eq(answer.adapter_bytes, 4711);
    cr_assert_eq(admin_bed_unload(bed, "law", &answer), STATUS_OK, "%s", answer.error.message);
    cr_assert_eq(atomic_load(&n_asked), 2);
    cr_expect_str_eq(unloaded, "no law");
    cr_expect_eq(answer.adapter_bytes, 42);
    admin_bed_close(bed);
}

static void expect_refused(struct admin_bed *bed, enum status status, const char *sentence)
{
    struct admin_answer answer;
    cr_expect_eq(admin_bed_load(bed, "law", "law-2026", &answer), status);
    cr_expect(strstr(answer.error.message, sentence), "%s", answer.error.message);
    cr_expect_eq(admin_bed_unload(bed, "law", &answer), status);
    cr_expect(strstr(answer.error.message, sentence), "%s", answer.error.message);
    cr_expect_eq(atomic_load(&n_asked), 0, "the role is not asked");
}

Test(admin_service, a_process_that_loads_or_drains_changes_no_adapter)
{
    struct admin_bed *bed = open_bed(true);
    atomic_store(&bed->process.serving, false);
    expect_refused(bed, STATUS_LOADING, status_text(STATUS_LOADING));
    atomic_store(&bed->process.serving, true);
    atomic_store(&bed->process.refuses_from_ns, 1);
    expect_refused(bed, STATUS_DRAINING, status_text(STATUS_DRAINING));
    admin_bed_close(bed);
}

Test(admin_service, a_role_without_adapters_says_who_has_them)
{
    struct admin_bed *bed = open_bed(false);
    expect_refused(bed, STATUS_UNSUPPORTED, "only workers load adapters");
    admin_bed_close(bed);
}

Test(admin_service, what_changes_a_process_is_an_operators)
{
    struct process process = {0};
    struct admin_bed *bed = open_bed(true);
    bed->service.process = &process;
    const struct rpc_service row = admin_service_row(&bed->service);
    uint32_t n_adapters = 0;
    for (size_t i = 0; i < row.n_methods; i++) {
        const bool only_reads = strstr(row.methods[i].path, "/GetState");
        n_adapters += strstr(row.methods[i].path, "loadAdapter") ||
                      strstr(row.methods[i].path, "LoadAdapter");
        cr_expect_eq(row.methods[i].roles, only_reads ? TLS_ROLES_ALL : TLS_ROLE_BIT(OPERATOR),
                     "%s", row.methods[i].path);
    }
    cr_expect_eq(n_adapters, 2);
    bed->service.process = &bed->process;
    admin_bed_close(bed);
}
