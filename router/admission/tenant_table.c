#include "router/admission/tenant_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void tenant_release(struct tenant *tenant)
{
    assert(tenant->at_once < tenant->n_holders && "each call within holds its tenant");
    if (--tenant->n_holders == 0)
        free(tenant);
}

void tenant_table_finish(struct tenant_table *table)
{
    for (uint32_t i = 0; i < table->n_tenants; i++)
        tenant_release(table->tenants[i]);
    free(table->tenants);
    free(table->tokens);
    *table = (struct tenant_table){0};
}

struct tenant *tenant_table_find(const struct tenant_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->n_tenants; i++)
        if (strcmp(table->tenants[i]->name, name) == 0)
            return table->tenants[i];
    return NULL;
}

static struct tenant *add_tenant(struct tenant_table *table, const struct tenant_row *row,
                                 uint64_t now_ns)
{
    struct tenant *tenant = tenant_table_find(table, row->tenant);
    if (tenant)
        return tenant;
    tenant = calloc(1, sizeof *tenant);
    if (!tenant)
        return NULL;
    memcpy(tenant->name, row->tenant, sizeof tenant->name);
    memcpy(tenant->group, row->group, sizeof tenant->group);
    tenant->n_holders = 1;
    tenant->at_once_max = row->requests_at_once;
    tenant->terms = (struct tenant_terms){
        .standing = {.weight = row->weight ? row->weight : 1, .priority = row->priority},
        .priority_max = tenant_row_priority_max(row)};
    if (tenant_key_of(tenant->name, &tenant->terms.standing.tenant) != STATUS_OK) {
        free(tenant);
        return NULL;
    }
    quota_init_a_second(&tenant->requests, row->requests_a_second_milli, now_ns);
    quota_init_a_minute(&tenant->tokens, row->tokens_a_minute, now_ns);
    table->tenants[table->n_tenants++] = tenant;
    return tenant;
}

static int compare_tokens(const void *a, const void *b)
{
    return memcmp(((const struct tenant_token *)a)->hash.bytes,
                  ((const struct tenant_token *)b)->hash.bytes, SHA256_BYTES);
}

enum status tenant_table_init(struct tenant_table *table, const struct tenant_row *rows, uint32_t n,
                              uint64_t now_ns)
{
    *table = (struct tenant_table){
        .tokens = calloc(n, sizeof *table->tokens),
        .tenants = calloc(n, sizeof(struct tenant *)),
    };
    bool is_whole = table->tokens && table->tenants;
    for (uint32_t i = 0; i < n && is_whole; i++) {
        struct tenant_token *token = &table->tokens[table->n_tokens++];
        *token = (struct tenant_token){
            .hash = rows[i].hash,
            .tenant = add_tenant(table, &rows[i], now_ns),
            .methods = rows[i].methods,
        };
        is_whole = token->tenant != NULL;
    }
    if (!is_whole) {
        tenant_table_finish(table);
        return STATUS_NO_MEMORY;
    }
    assert(table->n_tokens == n && table->n_tenants <= n);
    qsort(table->tokens, n, sizeof *table->tokens, compare_tokens);
    return STATUS_OK;
}

/* The time of a search only depends on the hash of the guess, which does not help to guess better. */
const struct tenant_token *tenant_table_find_token(const struct tenant_table *table,
                                                   const struct sha256 *hash)
{
    struct tenant_token wanted = {.hash = *hash};
    const struct tenant_token *found = table->n_tokens == 0
                                           ? NULL
                                           : bsearch(&wanted, table->tokens, table->n_tokens,
                                                     sizeof *table->tokens, compare_tokens);
    return found && sha256_equal(&found->hash, hash) ? found : NULL;
}

/* What any of its tokens may. */
uint32_t tenant_table_methods(const struct tenant_table *table, const struct tenant *tenant)
{
    uint32_t methods = 0;
    for (uint32_t i = 0; i < table->n_tokens; i++)
        if (table->tokens[i].tenant == tenant)
            methods |= table->tokens[i].methods;
    return methods;
}

/* The mutex is held. A tenant that stays is the same object, so that its running calls count. */
void tenant_table_replace(struct tenant_table *table, struct tenant_table *fresh,
                          const struct tenant_metrics *metrics, uint64_t now_ns)
{
    for (uint32_t i = 0; i < fresh->n_tenants; i++) {
        struct tenant *made = fresh->tenants[i];
        struct tenant *kept = tenant_table_find(table, made->name);
        if (metrics)
            made->series = tenant_metrics_of(metrics, made->name);
        if (!kept)
            continue;
        assert(kept->n_holders > 0 && kept != made);
        quota_inherit(&made->requests, &kept->requests, now_ns);
        quota_inherit(&made->tokens, &kept->tokens, now_ns);
        kept->requests = made->requests;
        kept->tokens = made->tokens;
        kept->at_once_max = made->at_once_max;
        kept->terms = made->terms;
        memcpy(kept->group, made->group, sizeof kept->group);
        kept->n_holders++;
        for (uint32_t j = 0; j < fresh->n_tokens; j++)
            if (fresh->tokens[j].tenant == made)
                fresh->tokens[j].tenant = kept;
        fresh->tenants[i] = kept;
        free(made);
    }
    tenant_table_finish(table);
    *table = *fresh;
}

static bool has_same_terms(const struct tenant_terms *a, const struct tenant_terms *b)
{
    return a->standing.tenant == b->standing.tenant && a->standing.weight == b->standing.weight &&
           a->standing.priority == b->standing.priority && a->priority_max == b->priority_max;
}

bool tenant_table_is_same(const struct tenant_table *a, const struct tenant_table *b)
{
    bool is_same = a->n_tokens == b->n_tokens && a->n_tenants == b->n_tenants;
    for (uint32_t i = 0; i < a->n_tokens && is_same; i++) {
        const struct tenant_token *x = &a->tokens[i], *y = &b->tokens[i];
        const struct tenant *s = x->tenant, *t = y->tenant;
        is_same = sha256_equal(&x->hash, &y->hash) && x->methods == y->methods &&
                  strcmp(s->name, t->name) == 0 && strcmp(s->group, t->group) == 0 &&
                  s->at_once_max == t->at_once_max && has_same_terms(&s->terms, &t->terms) &&
                  s->requests.fill_parts == t->requests.fill_parts &&
                  s->tokens.fill_parts == t->tokens.fill_parts;
    }
    return is_same;
}
