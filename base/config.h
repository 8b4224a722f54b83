/*
 * config - one table a process makes its flags, environment, YAML keys, --help and checks.
 *
 *     #define ROUTER_CONFIG(X)                                                                 \
 *         X(grpc_address,      STRING,            "127.0.0.1:50051", "",       "public API")   \
 *         X(kv_block_tokens,   U32(8, 128),       "32",              "tokens", "...")          \
 *         X(kv_pool_bytes,     SIZE(0, CONFIG_NO_MAX), "64M",        "bytes",  "...")          \
 *         X(drain_timeout_ms,  DURATION_MS(0, 600000), "30s",        "ms",     "...")          \
 *         X(kv_driver,         WORD(enum kv_driver, "pull|shm"), "pull", "",   "...")
 *     #define ROUTER_ALIASES(X) X("block-size", kv_block_tokens)
 *
 *     CONFIG_DECLARE(router_config, ROUTER_CONFIG);                     in router_config.h
 *     CONFIG_DEFINE(router_config, ROUTER_CONFIG, ROUTER_ALIASES)       in router_config.c
 *
 * declare `struct router_config` with one typed member a row, and `router_config_table()`.
 *
 *     type                  member       accepts
 *     BOOL                  bool         true false yes no on off 1 0; as a flag --x or --no-x
 *     U32(min, max)         uint32_t     decimal
 *     U64(min, max)         uint64_t     decimal
 *     F64(min, max)         double       decimal, finite
 *     SIZE(min, max)        uint64_t     bytes; 64K 2M 1G 1T (powers of 1024, also 64KiB)
 *     DURATION_MS(min, max) uint64_t     ms; 500ms 10s 5m 1h
 *     STRING                const char * anything; "" when unset
 *     SECRET                const char * as STRING, masked by --print-config
 *     WORD(enum, "a|b")     the enum     one of the words; the n-th word is value n, from 0
 *
 * Row `kv_block_tokens` is flag --kv-block-tokens, variable KVFERRY_KV_BLOCK_TOKENS and YAML key
 * kv_block_tokens (or kv-block-tokens), in this order of precedence; then comes the default. The
 * file is a flat mapping, named by --config or KVFERRY_CONFIG, and a regular file (a link to one will
 * do: ConfigMaps are links). A flag given twice: the last counts.
 *
 * An unknown flag or key, a key given twice in the file and a malformed value stop the start with
 * a sentence that names the flag, the variable, or file and line. An unknown variable does not:
 * other roles have other tables, and Kubernetes puts KVFERRY_* variables of its own there.
 *
 * Bounds: CONFIG_ROWS_MAX rows, CONFIG_FILE_BYTES_MAX of YAML.
 * Thread: loaded once at start; read-only afterwards.
 */
#pragma once

#include "base/log.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_NO_MAX         UINT64_MAX
#define CONFIG_ROWS_MAX       128
#define CONFIG_FILE_BYTES_MAX (1u << 20)

enum config_type {
    CONFIG_BOOL,
    CONFIG_U32,
    CONFIG_U64,
    CONFIG_F64,
    CONFIG_SIZE,
    CONFIG_DURATION_MS,
    CONFIG_STRING,
    CONFIG_SECRET,
    CONFIG_WORD,
};

struct config_row {
    const char *key; /* a C identifier, lower case */
    enum config_type type;
    uint64_t min, max;       /* of integers, sizes and durations */
    double f64_min, f64_max; /* of F64 */
    const char *words;       /* of WORD: "a|b|c" */
    const char *fallback;    /* the default, as a person would write it */
    const char *unit, *help;
    size_t offset; /* of the member, in the process's struct */
};

struct config_alias {
    const char *flag; /* "max-model-len" */
    const char *key;
};

struct config_table {
    const struct config_row *rows;
    uint32_t n_rows;
    const struct config_alias *aliases; /* ends with a NULL flag */
    size_t values_bytes;
};

/* Rows that every process has. */
#define CONFIG_COMMON_ROWS(X)                                                                      \
    X(log_level, WORD(enum log_level, "error|warn|info|debug"), "info", "", "least level logged")  \
    X(log_format, WORD(enum log_format, "auto|human|json"), "auto", "",                            \
      "auto: human on a terminal, JSON otherwise")                                                 \
    X(metrics_address, STRING, "127.0.0.1:9400", "",                                               \
      "where /metrics and /healthz are served; port 0: any free port; empty: nowhere")

/* Where a command starts: the arguments after its name, and the environment. */
struct config_input {
    const char *command; /* "kvferry router", for --help */
    const char *usage;   /* its positional arguments, "MODEL"; NULL: takes none, and refuses them */
    int argc;
    char *const *argv;
    char *const *environment; /* "NAME=value", ends with NULL */
};

struct config; /* owns the strings of the values, and knows where each came from */

/* Fills *values_out, the table's struct; its strings live until config_destroy. values_out and all
 * of input are borrowed until then.
 * INVALID_ARGUMENT, NOT_FOUND, IO_FAILED, CORRUPT, NO_MEMORY: *error says what, and where it stands;
 * it is not touched otherwise. */
MUST_CHECK enum status config_load(const struct config_table *table,
                                   const struct config_input *input, void *values_out,
                                   struct config **config_out, struct error *error);
void config_destroy(struct config *config); /* NULL is fine */

/* Does what --help, --print-config or --check-config ask for. True: it did, and the process has
 * nothing else to do than exit with success. */
bool config_answer(const struct config *config, FILE *out);

uint32_t config_n_positionals(const struct config *config);
const char *config_positional(const struct config *config, uint32_t index); /* borrowed from argv */

/* "default", "environment KVFERRY_X", "flag --x" or "FILE:LINE"; borrowed from config. */
const char *config_source(const struct config *config, const char *key);

void config_print_help(const struct config_table *table, const struct config_input *input,
                       FILE *out);
/* The effective values as YAML that loads again, each with its source; secrets are masked. */
void config_print(const struct config *config, FILE *out);

/* ---- what the table expands to ---- */

#define CONFIG_DECLARE(name, TABLE)                                                                \
    struct name {                                                                                  \
        TABLE(CONFIG_MEMBER_)                                                                      \
    };                                                                                             \
    const struct config_table *name##_table(void)

#define CONFIG_DEFINE(name, TABLE, ALIASES)                                                        \
    const struct config_table *name##_table(void)                                                  \
    {                                                                                              \
        typedef struct name config_self_;                                                          \
        static const struct config_row rows[] = {TABLE(CONFIG_ROW_)};                              \
        static const struct config_alias aliases[] = {ALIASES(CONFIG_ALIAS_){NULL, NULL}};         \
        static const struct config_table table = {rows, sizeof rows / sizeof *rows, aliases,       \
                                                  sizeof(struct name)};                            \
        return &table;                                                                             \
    }

#define CONFIG_NO_ALIASES(X)

#define CONFIG_MEMBER_(key, type, fallback, unit, help) CONFIG_MEMBER_##type key;
#define CONFIG_MEMBER_BOOL                              bool
#define CONFIG_MEMBER_U32(min, max)                     uint32_t
#define CONFIG_MEMBER_U64(min, max)                     uint64_t
#define CONFIG_MEMBER_F64(min, max)                     double
#define CONFIG_MEMBER_SIZE(min, max)                    uint64_t
#define CONFIG_MEMBER_DURATION_MS(min, max)             uint64_t
#define CONFIG_MEMBER_STRING                            const char *
#define CONFIG_MEMBER_SECRET                            const char *
#define CONFIG_MEMBER_WORD(enumeration, words)          enumeration

#define CONFIG_ALIAS_(flag, key) {flag, #key},
#define CONFIG_ROW_(key, type, fallback, unit, help)                                               \
    {#key, CONFIG_KIND_##type, fallback, unit, help, offsetof(config_self_, key)},
#define CONFIG_KIND_BOOL                     CONFIG_BOOL, 0, 0, 0, 0, NULL
#define CONFIG_KIND_U32(min, max)            CONFIG_U32, min, max, 0, 0, NULL
#define CONFIG_KIND_U64(min, max)            CONFIG_U64, min, max, 0, 0, NULL
#define CONFIG_KIND_F64(min, max)            CONFIG_F64, 0, 0, min, max, NULL
#define CONFIG_KIND_SIZE(min, max)           CONFIG_SIZE, min, max, 0, 0, NULL
#define CONFIG_KIND_DURATION_MS(min, max)    CONFIG_DURATION_MS, min, max, 0, 0, NULL
#define CONFIG_KIND_STRING                   CONFIG_STRING, 0, 0, 0, 0, NULL
#define CONFIG_KIND_SECRET                   CONFIG_SECRET, 0, 0, 0, 0, NULL
#define CONFIG_KIND_WORD(enumeration, words) CONFIG_WORD, 0, 0, 0, 0, words
