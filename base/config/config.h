/*
 * config - one table for each process, which gives its flags, environment variables, YAML keys, --help and checks.
 *
 *     #define ROUTER_CONFIG(X)                                                                 \
 *         X(grpc_address,      STRING,            "127.0.0.1:50051", "",       "public API")   \
 *         X(kv_block_tokens,   U32(8, 128),       "32",              "tokens", "...")          \
 *         X(kv_pool_bytes,     SIZE(0, CONFIG_NO_MAX), "64M",        "bytes",  "...")          \
 *         X(drain_timeout_ms,  DURATION_MS(0, 600000), "30s",        "ms",     "...")          \
 *         X(kv_driver,         WORD(enum kv_driver, "pull|shm"), "pull", "",   "...")
 *     #define ROUTER_ALIASES(X) X("block-size", kv_block_tokens)      one letter: also -n
 *
 *     CONFIG_DECLARE(router_config, ROUTER_CONFIG);                     in router_config.h
 *     CONFIG_DEFINE(router_config, ROUTER_CONFIG, ROUTER_ALIASES)       in router_config.c
 *
 * declare `struct router_config` with one typed member a row, and `router_config_table()`.
 *
 *     type                  member       accepts
 *     BOOL                  bool         true false yes no on off 1 0; as a flag --x, --x=yes or --no-x
 *     U32(min, max)         uint32_t     decimal
 *     U64(min, max)         uint64_t     decimal
 *     F64(min, max)         double       decimal, finite
 *     SIZE(min, max)        uint64_t     bytes; K M G T, Ki, KiB ...: powers of 1024; kB MB GB TB:
 *                                        of 1000; fractions that give whole bytes: 1.5Gi
 *     DURATION_MS(min, max) uint64_t     ms; 500ms 10s 5m 1h 1.5s
 *     STRING                const char * anything; "" when unset
 *     SECRET                const char * as STRING, masked by --print-config
 *     WORD(enum, "a|b")     the enum     one of the words; the n-th word is value n, from 0
 *     LIST                  config_list  texts: the flag repeated, a list in YAML (or one text),
 *                                        the variable as one text, never split
 *     HIDDEN(type)          as type      as type, but --help does not show it: for parent processes
 *
 * Row `kv_block_tokens` is flag --kv-block-tokens, variable KVFERRY_KV_BLOCK_TOKENS and YAML key kv_block_tokens (or
 * kv-block-tokens), in this order of precedence; the default is last. --config or KVFERRY_CONFIG names the file, which
 * is a flat mapping in a regular file (or a link to one: ConfigMaps are links). Several commands may share one file: a
 * key that is missing in this table but is in the table of a neighbour is ignored, and --check-config says so. A switch
 * without a row (--check-config, --strict-environment) takes the values of a BOOL. If a flag is given twice, the last
 * value counts. All texts of a list come from one source, the first that gives any.
 *
 * An unknown flag or key, a key given twice in the file and a malformed value stop the start with a sentence that names
 * the flag, the variable, or file and line, and suggests a similar name. A KVFERRY_* variable that no command of the
 * program knows gives a warning, or an error with --strict-environment. The service links of Kubernetes
 * (KVFERRY_X_SERVICE_HOST with KVFERRY_X_PORT, ..._PORT_50051_TCP) are accepted.
 *
 * Bounds: CONFIG_ROWS_MAX rows, CONFIG_FILE_BYTES_MAX of YAML, CONFIG_LIST_MAX texts of a list.
 * Thread: loaded once at start; read-only afterwards.
 */
#pragma once

#include "base/log/log.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_NO_MAX         UINT64_MAX
#define CONFIG_ROWS_MAX       208
#define CONFIG_FILE_BYTES_MAX (1u << 20)
#define CONFIG_LIST_MAX       64
#define CONFIG_NAME_BYTES     80 /* of a flag or a variable */
#define CONFIG_NOTES_BYTES    512
#define CONFIG_EXIT_MISUSED   2 /* exit status for wrong arguments or configuration */

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
    CONFIG_LIST,
};

struct config_list {
    const char *const *texts; /* [n], borrowed from the config */
    uint32_t n;
};

struct config_row {
    const char *key; /* a C identifier, lower case */
    bool is_hidden;
    enum config_type type;
    uint64_t min, max;       /* of integers, sizes and durations */
    double f64_min, f64_max; /* of F64 */
    const char *words;       /* of WORD: "a|b|c" */
    const char *fallback;    /* the default, as a person would write it: "64M" */
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

/* Rows of every process. */
#define CONFIG_COMMON_ROWS(X)                                                                      \
    X(log_level, WORD(enum log_level, "error|warn|info|debug"), "info", "",                        \
      "lowest level that is logged")                                                               \
    X(log_format, WORD(enum log_format, "auto|human|json"), "auto", "",                            \
      "auto: human-readable on a terminal, else JSON")                                             \
    X(metrics_address, STRING, "127.0.0.1:9400", "",                                               \
      "address of /metrics and /healthz; empty: no metrics port")

/* A heading of --help and its rows; a key that is not in the table is ignored. */
struct config_group {
    const char *title;
    const char *keys; /* separated by spaces, in the order shown */
};

/* What is known for the whole program, not only for one command. */
struct config_program {
    const struct config_table *const *tables; /* of all commands, ends with NULL */
    const char *const *variables;      /* known without a row: "KVFERRY_CPU", ends with NULL */
    const struct config_group *groups; /* ends with a NULL title */
};

/* The input of a command: the arguments after its name, and the environment. */
struct config_input {
    const char *command; /* "kvferry router", for --help */
    const char *usage;   /* "MODEL": one positional argument, "[TEXT]": one or none; NULL: none */
    int argc;
    char *const *argv;
    char *const *environment;             /* "NAME=value", ends with NULL */
    const char *help, *examples;          /* a sentence, and lines; for --help, may be NULL */
    const struct config_program *program; /* NULL: no check of variables, no groups */
    const struct config_table *const
        *neighbours; /* tables of commands that may share the file; ends with NULL; NULL: none */
};

struct config; /* owns the strings of the values, and stores the source of each value */

/* Fills *values_out, the table's struct; its strings live until config_destroy. values_out and all
 * of input are borrowed until then. INVALID_ARGUMENT, NOT_FOUND, IO_FAILED, CORRUPT, NO_MEMORY:
 * *error says what is wrong and where. It is not changed on success. */
MUST_CHECK enum status config_load(const struct config_table *table,
                                   const struct config_input *input, void *values_out,
                                   struct config **config_out, struct error *error);
void config_destroy(struct config *config); /* NULL is fine */

/* Prints what --help or --print-config asks for. True: it printed, and the process should exit with success. */
bool config_answer(const struct config *config, FILE *out);
/* Whether --check-config was given: the process says whether it would start, and exits. */
bool config_is_check(const struct config *config);
/* The warnings, from index 0; NULL: no more. One sentence for each unknown variable and, with --check-config,
 * for each ignored key of the file. */
const char *config_warning(const struct config *config, uint32_t index);

/* Removes from the process's environment the variables that were read and the unknown ones, so that
 * child processes, which have other tables, do not read them. Call it before any thread is started. */
void config_forget_environment(const struct config *config);

/* The exit status of a process whose config_load failed. */
int config_exit_status(enum status status);

uint32_t config_n_positionals(const struct config *config);
const char *config_positional(const struct config *config, uint32_t index); /* borrowed from argv */

/* "default", "environment KVFERRY_X", "flag --x" or "FILE:LINE"; borrowed from config. */
const char *config_source(const struct config *config, const char *key);
const char *config_file(const struct config *config); /* as it was named, borrowed; NULL: no file */

void config_flag_name(const char *key, char name_out[CONFIG_NAME_BYTES]);     /* "--x-y" */
void config_variable_name(const char *key, char name_out[CONFIG_NAME_BYTES]); /* "KVFERRY_X_Y" */
/* The row with that key, written with - or _, or with that alias; NULL: none. */
const struct config_row *config_find_row(const struct config_table *table, const char *name,
                                         size_t length);

/* The rows of --help in their order, each with the title of its group. */
struct config_shown {
    const char *title;
    const struct config_row *row;
};
uint32_t config_shown_rows(const struct config_table *table, const struct config_program *program,
                           struct config_shown rows_out[CONFIG_ROWS_MAX]);
const char *config_value_name(const struct config_row *row); /* "a|b", "tokens", "VALUE" */
/* "0 .. 5; may be repeated; default 3; KVFERRY_X", without the parts that do not apply. A longer
 * text is cut. */
void config_row_notes(const struct config_row *row, char notes_out[CONFIG_NOTES_BYTES]);

/* The flags of every command that are not rows. */
struct config_built_in {
    const char *flag, *value, *help; /* value NULL: the flag takes no value */
};
extern const struct config_built_in CONFIG_BUILT_IN[]; /* ends with a NULL flag */

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
#define CONFIG_MEMBER_LIST                              struct config_list
#define CONFIG_MEMBER_HIDDEN(type)                      CONFIG_MEMBER_##type

#define CONFIG_ALIAS_(flag, key) {flag, #key},
#define CONFIG_ROW_(key, type, fallback, unit, help)                                               \
    {#key, CONFIG_SHOWN_##type, fallback, unit, help, offsetof(config_self_, key)},
#define CONFIG_KIND_BOOL                     CONFIG_BOOL, 0, 0, 0, 0, NULL
#define CONFIG_KIND_U32(min, max)            CONFIG_U32, min, max, 0, 0, NULL
#define CONFIG_KIND_U64(min, max)            CONFIG_U64, min, max, 0, 0, NULL
#define CONFIG_KIND_F64(min, max)            CONFIG_F64, 0, 0, min, max, NULL
#define CONFIG_KIND_SIZE(min, max)           CONFIG_SIZE, min, max, 0, 0, NULL
#define CONFIG_KIND_DURATION_MS(min, max)    CONFIG_DURATION_MS, min, max, 0, 0, NULL
#define CONFIG_KIND_STRING                   CONFIG_STRING, 0, 0, 0, 0, NULL
#define CONFIG_KIND_SECRET                   CONFIG_SECRET, 0, 0, 0, 0, NULL
#define CONFIG_KIND_WORD(enumeration, words) CONFIG_WORD, 0, 0, 0, 0, words
#define CONFIG_KIND_LIST                     CONFIG_LIST, 0, 0, 0, 0, NULL
/* is_hidden comes before the kind. */
#define CONFIG_SHOWN_BOOL                     false, CONFIG_KIND_BOOL
#define CONFIG_SHOWN_U32(min, max)            false, CONFIG_KIND_U32(min, max)
#define CONFIG_SHOWN_U64(min, max)            false, CONFIG_KIND_U64(min, max)
#define CONFIG_SHOWN_F64(min, max)            false, CONFIG_KIND_F64(min, max)
#define CONFIG_SHOWN_SIZE(min, max)           false, CONFIG_KIND_SIZE(min, max)
#define CONFIG_SHOWN_DURATION_MS(min, max)    false, CONFIG_KIND_DURATION_MS(min, max)
#define CONFIG_SHOWN_STRING                   false, CONFIG_KIND_STRING
#define CONFIG_SHOWN_SECRET                   false, CONFIG_KIND_SECRET
#define CONFIG_SHOWN_WORD(enumeration, words) false, CONFIG_KIND_WORD(enumeration, words)
#define CONFIG_SHOWN_LIST                     false, CONFIG_KIND_LIST
#define CONFIG_SHOWN_HIDDEN(type)             true, CONFIG_KIND_##type
