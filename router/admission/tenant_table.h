/*
 * tenant_table - the tenants and tokens of one version of the file, and the remaining quotas of each tenant.
 *
 * A tenant that is in the next version, too, stays the same object, so its running calls still count.
 *
 * Bounds: TENANT_ROWS_MAX tokens. Thread: the owner's, which holds the mutex of its tenants.
 */
#pragma once

#include "base/sha256.h"
#include "base/status.h"
#include "router/admission/quota.h"
#include "router/admission/tenant_file.h"
#include "router/admission/tenant_metrics.h"

#include <stdbool.h>
#include <stdint.h>

/* Counted: the table, and every pass. */
struct tenant {
    char name[TENANT_NAME_MAX + 1];
    char group[TENANT_NAME_MAX + 1];
    uint32_t n_holders;
    struct quota requests, tokens;
    uint32_t at_once_max; /* 0: no limit */
    uint32_t at_once;
    struct tenant_terms terms;
    const struct tenant_series *series; /* NULL: not counted */
};

struct tenant_token {
    struct sha256 hash;
    struct tenant *tenant;
    uint32_t methods;
};

/* Tokens by hash, and each tenant once. */
struct tenant_table {
    struct tenant_token *tokens; /* [n_tokens] */
    uint32_t n_tokens;
    struct tenant **tenants; /* [n_tenants] */
    uint32_t n_tenants;
};

/* One holder less; the last frees it. */
void tenant_release(struct tenant *tenant);

/* NO_MEMORY: nothing is kept. */
MUST_CHECK enum status tenant_table_init(struct tenant_table *table, const struct tenant_row *rows,
                                         uint32_t n, uint64_t now_ns);
/* Releases its tenants; a zeroed one is fine. */
void tenant_table_finish(struct tenant_table *table);

/* Borrowed; NULL: there is none. */
struct tenant *tenant_table_find(const struct tenant_table *table, const char *name);
const struct tenant_token *tenant_table_find_token(const struct tenant_table *table,
                                                   const struct sha256 *hash);
/* The methods of all its tokens together. */
uint32_t tenant_table_methods(const struct tenant_table *table, const struct tenant *tenant);

/* Whether both rows are equal. */
bool tenant_table_is_same(const struct tenant_table *a, const struct tenant_table *b);
/* Replaces the table by fresh and becomes its owner. metrics NULL: no metrics. */
void tenant_table_replace(struct tenant_table *table, struct tenant_table *fresh,
                          const struct tenant_metrics *metrics, uint64_t now_ns);
