#include "cli/print/reference.h"

#include "api/http/http_limits.h"
#include "base/config/config_value.h"
#include "ctx_worker/ctx_metrics.h"
#include "gen_worker/gen_metrics.h"
#include "process/process.h"
#include "process/process_trace.h"
#include "router/admission/tenant_metrics.h"
#include "router/requests/router_metrics.h"
#include "rpc/relay/limits.h"
#include "text/text_metrics.h"
#include "worker_common/worker_metrics.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Escapes text for a table cell. */
static void print_cell(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, *text == '|' ? "\\%c" : "%c", *text);
}

static void print_head(const char *title, const char *columns, FILE *out)
{
    fprintf(out, "\n## %s\n\n%s\n", title, columns);
    for (const char *at = columns; *at; at++)
        fputs(*at != '|' ? "" : at[1] ? "| --- " : "|\n", out);
}

/* ---- config ---- */

static void print_accepted(const struct config_row *row, FILE *out)
{
    char range[100];
    bool has_range = config_value_range(row, range, sizeof range);
    switch (row->type) {
    case CONFIG_BOOL:
        fputs("yes, no", out);
        return;
    case CONFIG_WORD:
        for (const char *at = row->words; *at; at++)
            fprintf(out, *at == '|' ? ", " : "%c", *at);
        return;
    case CONFIG_LIST:
        fputs("texts; may be repeated", out);
        return;
    default:
        fprintf(out, "%s%s%s", has_range ? range : "", has_range && *row->unit ? " " : "",
                *row->unit  ? row->unit
                : has_range ? ""
                            : "any");
    }
}

static void print_row(const struct config_row *row, FILE *out)
{
    fprintf(out, "| `%s` | ", row->key);
    print_accepted(row, out);
    fprintf(out, *row->fallback ? " | `%s` | " : " | %s | ", row->fallback);
    print_cell(row->help, out);
    fputs(" |\n", out);
}

static void print_command(const struct command *command, FILE *out)
{
    struct config_shown rows[CONFIG_ROWS_MAX];
    const struct config_table *table = command->table();
    uint32_t n = config_shown_rows(table, command_program(), rows);
    assert(n <= CONFIG_ROWS_MAX);
    print_head(command->full_name, "| key | accepts | default | meaning |", out);
    for (uint32_t i = 0; i < n; i++)
        print_row(rows[i].row, out);
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++)
        fprintf(out, "| `%s` | | | the same as `%s` |\n", alias->flag, alias->key);
}

void reference_print_config(FILE *out)
{
    fputs(
        "# Configuration\n\nMade by `make reference`. A key such as `kv_blocks` can be given as "
        "the flag `--kv-blocks`, as the variable\n`KVFERRY_KV_BLOCKS`, or as `kv_blocks` in the "
        "YAML file that `--config` or `KVFERRY_CONFIG` names. A flag overrides a\nvariable, and a "
        "variable overrides the file. One file may have keys of a server and of its clients "
        "(`generate`, `ps`,\n`drain`): each command reads its own. Sizes: `K`, `M`, `G`, `T` and "
        "`Ki`, `KiB` ... are powers of 1024, `kB`, `MB`,\n`GB`, `TB` are powers of 1000; `1.5Gi`. "
        "Durations: `500ms`, `10s`, `5m`, `1h`. When `cpu_kernels` and\n`attention_kernels` are "
        "empty, `KVFERRY_CPU` and `KVFERRY_ATTENTION` replace them.\n",
        out);
    const struct command *command;
    for (uint32_t i = 0; (command = command_at(i)); i++)
        if (command->table)
            print_command(command, out);
    print_head("Every command", "| flag | meaning |", out);
    for (const struct config_built_in *flag = CONFIG_BUILT_IN; flag->flag; flag++)
        fprintf(out, "| `--%s%s%s` | %s |\n", flag->flag, flag->value ? " " : "",
                flag->value ? flag->value : "", flag->help);
}

/* ---- errors ---- */

static void print_error(int grpc_code, const char *reason, const char *text, FILE *out)
{
    if (*reason)
        fprintf(out, "| `%s` | %s | %s |\n", reason, status_grpc_name(grpc_code), text);
}

void reference_print_errors(FILE *out)
{
    fputs("# Errors\n\nMade by `make reference`. A call that fails carries the `reason` in the "
          "`google.rpc.ErrorInfo` of its details.\n",
          out);
    print_head("Reasons", "| reason | gRPC code | meaning |", out);
#define X(name, grpc, reason, text) print_error(grpc, reason, text, out);
    STATUS_TABLE(X)
#undef X
}

/* ---- metrics ---- */

/* The names of a sample's labels, without le. line: the text after the metric's name. */
static void print_labels(const char *line, FILE *out)
{
    size_t length;
    bool is_first = true;
    for (const char *at = *line == '{' ? line + 1 : ""; (length = strcspn(at, "=")) > 0;) {
        if (at[length] == '\0')
            return;
        if (length != 2 || strncmp(at, "le", 2) != 0)
            fprintf(out, "%s`%.*s`", is_first ? "" : ", ", (int)length, at);
        is_first = false;
        at += length + 2;
        at += strcspn(at, "\"") + 1;
        if (*at++ != ',')
            return;
    }
}

/* Reads the exposition text: one row for each # HELP, # TYPE and first sample. */
static void print_metrics_of(char *text, FILE *out)
{
    char *help = NULL, *type = NULL, *line;
    while ((line = strsep(&text, "\n"))) {
        if (strncmp(line, "# HELP ", 7) == 0)
            help = line + 7;
        else if (strncmp(line, "# TYPE ", 7) == 0)
            type = line + 7;
        else if (help && type) {
            size_t n = strcspn(help, " ");
            fprintf(out, "| `%.*s` | %s | ", (int)n, help, type + n + 1);
            print_labels(line + strcspn(line, "{ "), out);
            fputs(" | ", out);
            print_cell(help + n + 1, out);
            fputs(" |\n", out);
            help = NULL;
        }
    }
}

static void register_process(struct metrics *metrics)
{
    static struct call_counters calls;
    struct relay_metrics relay;
    struct process_auth_metrics auth;
    struct process_tls_metrics tls;
    relay_metrics_init(&relay, metrics);
    call_counters_init(&calls, metrics);
    (void)process_metrics_ready(metrics);
    process_auth_metrics_init(&auth, metrics);
    process_tls_metrics_init(&tls, metrics);
    struct trace_metrics trace;
    trace_metrics_init(&trace, metrics);
}

static void register_router(struct metrics *metrics)
{
    static struct router_metrics router;
    static struct tenant_metrics tenants;
    router_metrics_create(&router, metrics);
    tenant_metrics_create(&tenants, metrics, NULL, 0);
    static struct http_metrics http;
    static struct text_metrics text;
    http_metrics_init(&http, metrics);
    text_metrics_init(&text, metrics);
}

static void register_worker(struct metrics *metrics)
{
    static char labels[WORKER_KERNEL_LABELS_MAX];
    const struct process_kernels kernels = {"avx2", "avx2", "default", 2};
    worker_metrics_load_progress(metrics);
    worker_metrics_kernels(metrics, &kernels, labels);
}

static void register_ctx_worker(struct metrics *metrics)
{
    static struct ctx_metrics own;
    ctx_metrics_init(&own, metrics);
    ctx_metrics_transport(&own, metrics, "am-tcp");
    register_worker(metrics);
}

static void register_gen_worker(struct metrics *metrics)
{
    static struct gen_metrics own;
    gen_metrics_init(&own, metrics);
    gen_metrics_transport(&own, metrics, "am-tcp");
    register_worker(metrics);
}

enum status reference_print_metrics(FILE *out)
{
    static const struct {
        const char *role;
        void (*enrol)(struct metrics *metrics);
    } ROLES[] = {{"router", register_router},
                 {"ctx-worker", register_ctx_worker},
                 {"gen-worker", register_gen_worker}};
    fputs(
        "# Metrics\n\nMade by `make reference`. What `/metrics` of each role shows, in Prometheus' "
        "text format.\n",
        out);
    for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++) {
        struct metrics *metrics;
        char *text;
        size_t bytes;
        TRY(metrics_create(ROLES[i].role, &metrics));
        register_process(metrics);
        ROLES[i].enrol(metrics);
        enum status status = metrics_text(metrics, &text, &bytes);
        metrics_destroy(metrics);
        TRY(status);
        print_head(ROLES[i].role, "| name | type | labels | meaning |", out);
        print_metrics_of(text, out);
        free(text);
    }
    return STATUS_OK;
}
