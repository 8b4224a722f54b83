#include "cli/serve_arguments.h"

#include "ctx_worker/ctx_config.h"
#include "ctx_worker/ctx_worker.h"
#include "gen_worker/gen_config.h"
#include "gen_worker/gen_worker.h"
#include "router/router.h"
#include "router/router_config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANY_PORT "127.0.0.1:0"

/* Hands on every row that the role's table has too, except where the addresses are its own. Workers stop
 * after the router, when nobody is left who would have to hear of it first: no delay. */
static enum status add_shared_rows(const struct serve_config *values,
                                   const struct config_table *role, bool is_router,
                                   struct child_arguments *arguments)
{
    const struct config_table *own = serve_config_table();
    for (uint32_t i = 0; i < own->n_rows; i++) {
        const struct config_row *row = &own->rows[i];
        const struct config_row *theirs = config_find_row(role, row->key, strlen(row->key));
        bool is_routers = strstr(row->key, "_address") || strcmp(row->key, "drain_delay_ms") == 0;
        bool is_own = serve_row_is_own(row->key) || (!is_router && is_routers);
        if (!theirs || theirs->type != row->type || is_own)
            continue;
        char flag[CONFIG_NAME_BYTES];
        char value[SERVE_VALUE_MAX];
        config_flag_name(row->key, flag);
        serve_row_format(row, values, value);
        TRY(child_arguments_add(arguments, flag, value));
    }
    return STATUS_OK;
}

enum status serve_worker_arguments(const struct serve_config *values, const char *folder,
                                   const char *role, const struct config_table *table,
                                   struct child_arguments *arguments)
{
    TRY(child_arguments_add(arguments, role, NULL));
    TRY(child_arguments_add(arguments, "--control-address", ANY_PORT));
    TRY(child_arguments_add(arguments, "--health-address", ANY_PORT));
    TRY(child_arguments_add(arguments, "--metrics-address", ANY_PORT));
    char n_sharers[16];
    snprintf(n_sharers, sizeof n_sharers, "%u",
             values->n_context_workers + values->n_generation_workers);
    TRY(child_arguments_add(arguments, "--kv-sharers", n_sharers));
    TRY(add_shared_rows(values, table, false, arguments));
    return child_arguments_add_path(arguments, folder);
}

enum status serve_router_arguments(const struct serve_config *values, const char *folder,
                                   const char *contexts, const char *generations,
                                   struct child_arguments *arguments)
{
    TRY(child_arguments_add(arguments, "router", NULL));
    TRY(child_arguments_add(arguments, "--context-workers", contexts));
    TRY(child_arguments_add(arguments, "--generation-workers", generations));
    TRY(add_shared_rows(values, router_config_table(), true, arguments));
    return child_arguments_add_path(arguments, folder);
}

/* out: for the role's plan; NULL: only checks. The first argument is the role's name. A key that is drawn counts as given, and is not read. */
static enum status look_at_role(const struct role *role, struct child_arguments *arguments,
                                FILE *out, struct error *error)
{
    TRY(child_arguments_add(arguments, "--cluster-key-fd", "3"));
    const struct config_input input = {
        .command = arguments->list[0],
        .usage = "MODEL",
        .argc = (int)arguments->n - 1,
        .argv = arguments->list + 1,
        .environment = environ, /* as the child will have it */
    };
    return out ? role_plan(role, &input, out, error) : role_check(role, &input, error);
}

static enum status look_at_worker(const struct serve_config *values, const char *folder,
                                  const struct role *role, const char *name, FILE *out,
                                  struct error *error)
{
    struct child_arguments arguments = {0};
    enum status status = serve_worker_arguments(values, folder, name, role->table(), &arguments);
    if (status == STATUS_OK)
        status = look_at_role(role, &arguments, out, error);
    child_arguments_finish(&arguments);
    return status;
}

enum status serve_rows_check(const struct serve_config *values, struct error *error)
{
    if (values->n_context_workers == 0 && !values->local_prefill)
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "n_context_workers is 0 and local_prefill no: nobody would compute prompts");
    return values->ports_file[0] ? ports_file_check(values->ports_file, error) : STATUS_OK;
}

/* out NULL: only checks. */
static enum status look(const struct serve_config *values, const char *folder, FILE *out,
                        struct error *error)
{
    TRY(serve_rows_check(values, error));
    if (values->n_context_workers > 0)
        TRY(look_at_worker(values, folder, &ctx_worker_role, "ctx-worker", out, error));
    TRY(look_at_worker(values, folder, &gen_worker_role, "gen-worker", out, error));
    struct child_arguments arguments = {0};
    enum status status = serve_router_arguments(values, folder, "", "", &arguments);
    if (status == STATUS_OK)
        status = look_at_role(&router_role, &arguments, out, error);
    child_arguments_finish(&arguments);
    return status;
}

enum status serve_check(const struct serve_config *values, const char *folder, struct error *error)
{
    return look(values, folder, NULL, error);
}

enum status serve_plan(const struct serve_config *values, const char *folder, FILE *out,
                       struct error *error)
{
    fprintf(out, "processes   1 router, %u ctx-worker, %u gen-worker\n", values->n_context_workers,
            values->n_generation_workers);
    return look(values, folder, out, error);
}
