#include "cli/serve/serve_arguments.h"

#include "ctx_worker/ctx_config.h"
#include "ctx_worker/ctx_worker.h"
#include "gen_worker/gen_config.h"
#include "gen_worker/gen_worker.h"
#include "router/router.h"
#include "router/router_config.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANY_PORT "127.0.0.1:0"

static enum status add_shared_rows(const struct serve_config *values,
                                   const struct config_table *role, bool is_router,
                                   struct child_arguments *arguments)
{
    const struct config_table *own = serve_config_table();
    for (uint32_t i = 0; i < own->n_rows; i++) {
        const struct config_row *row = &own->rows[i];
        if (!serve_hands_on(row, role, is_router))
            continue;
        char flag[CONFIG_NAME_BYTES];
        char buffer[SERVE_VALUE_MAX];
        config_flag_name(row->key, flag);
        if (row->type == CONFIG_LIST) {
            const struct config_list *list = serve_row_list(row, values);
            for (uint32_t text = 0; text < list->n; text++)
                TRY(child_arguments_add(arguments, flag, list->texts[text]));
            continue;
        }
        TRY(child_arguments_add(arguments, flag, serve_row_format(row, values, buffer)));
    }
    return STATUS_OK;
}

enum status serve_worker_arguments(const struct serve_config *values, const char *folder,
                                   const char *role, const struct config_table *table,
                                   struct child_arguments *arguments)
{
    assert(values->n_generation_workers > 0); /* all workers share the machine's memory */
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
    assert(contexts && generations);
    TRY(child_arguments_add(arguments, "router", NULL));
    TRY(child_arguments_add(arguments, "--context-workers", contexts));
    TRY(child_arguments_add(arguments, "--generation-workers", generations));
    TRY(add_shared_rows(values, router_config_table(), true, arguments));
    return child_arguments_add_path(arguments, folder);
}

/* Replaces port 0 by the bound port; known may have another host, the advertised one. */
static enum status add_known_port(struct child_arguments *arguments, const char *flag,
                                  const char *given, const char *known)
{
    struct address address, had;
    struct error ignored;
    char text[ADDRESS_TEXT_MAX];
    if (!known[0] || address_parse_listen(given, &address, &ignored) != STATUS_OK ||
        address.is_unix || address.port != 0)
        return STATUS_OK;
    TRY(address_parse(known, &had, &ignored));
    address.port = had.port;
    address_format(&address, text);
    return child_arguments_add(arguments, flag, text);
}

enum status serve_port_arguments(const struct serve_config *values, bool is_router,
                                 const struct ports *ports, struct child_arguments *arguments)
{
    const struct {
        const char *flag, *given, *known;
    } rows[] = {
        {"--grpc-address", is_router ? values->grpc_address : "", ports->grpc},
        {"--http-address", is_router ? values->http_address : "", ports->http},
        {"--engine-address", is_router ? values->engine_address : "", ports->engine},
        {"--control-address", is_router ? values->control_address : ANY_PORT, ports->control},
        {"--health-address", is_router ? values->health_address : ANY_PORT, ports->health},
        {"--metrics-address", is_router ? values->metrics_address : ANY_PORT, ports->metrics},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TRY(add_known_port(arguments, rows[i].flag, rows[i].given, rows[i].known));
    return STATUS_OK;
}

/* out: for the role's plan; NULL: only checks. The first argument is the role's name. A drawn key counts as given, and
 * is not read. */
static enum status look_at_role(const struct role *role, struct child_arguments *arguments,
                                FILE *out, struct error *error)
{
    assert(arguments->n > 0);
    TRY(child_arguments_add(arguments, "--cluster-key-fd", "3"));
    const struct config_input input = {
        .command = arguments->list[0],
        .usage = "MODEL",
        .argc = (int)arguments->n - 1,
        .argv = arguments->list + 1,
        .environment = environ, /* the child's environment */
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
            "n_context_workers is 0 and local_prefill is no: no worker would compute prompts");
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
