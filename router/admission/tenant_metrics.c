#include "router/admission/tenant_metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void add_series(struct tenant_metrics *metrics, struct metrics *registry, uint32_t index,
                       const char *tenant)
{
    static const char *const ENDS[] = {"", ",kind=prompt", ",kind=generated"};
    struct tenant_series *series = &metrics->series[index];
    char(*labels)[sizeof metrics->labels[0][0]] = metrics->labels[index];
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        snprintf(labels[i], sizeof *labels, "tenant=%s%s", tenant, ENDS[i]);
    series->requests = metrics_counter(registry, "kvferry_tenant_requests_total", labels[0],
                                       "Calls accepted, by tenant.");
    series->over_quota = metrics_counter(registry, "kvferry_tenant_quota_refusals_total", labels[0],
                                         "Calls refused with QUOTA, by tenant.");
    series->prompt_tokens = metrics_counter(registry, "kvferry_tenant_tokens_total", labels[1],
                                            "Tokens charged, by tenant.");
    series->generated_tokens = metrics_counter(registry, "kvferry_tenant_tokens_total", labels[2],
                                               "Tokens charged, by tenant.");
}

static bool has_name(const struct tenant_metrics *metrics, const char *tenant)
{
    for (uint32_t i = 0; i < metrics->n_names; i++)
        if (strcmp(metrics->names[i], tenant) == 0)
            return true;
    return strcmp(tenant, "other") == 0;
}

void tenant_metrics_create(struct tenant_metrics *metrics, struct metrics *registry,
                           const struct tenant_row *rows, uint32_t n_rows)
{
    static const char FAILURES[] = "kvferry_token_failures_total";
    static const char HELP[] = "Public calls refused because of their token, by reason.";
    *metrics = (struct tenant_metrics){0};
    metrics->no_token = metrics_counter(registry, FAILURES, "reason=no_token", HELP);
    metrics->unknown_token = metrics_counter(registry, FAILURES, "reason=unknown_token", HELP);
    metrics->not_allowed = metrics_counter(registry, FAILURES, "reason=not_allowed", HELP);
    for (uint32_t i = 0; i < n_rows && metrics->n_names < TENANT_LABELS_MAX; i++) {
        if (has_name(metrics, rows[i].tenant))
            continue;
        snprintf(metrics->names[metrics->n_names], sizeof metrics->names[0], "%s", rows[i].tenant);
        add_series(metrics, registry, metrics->n_names, rows[i].tenant);
        metrics->n_names++;
    }
    add_series(metrics, registry, TENANT_LABELS_MAX, "other");
}

const struct tenant_series *tenant_metrics_of(const struct tenant_metrics *metrics,
                                              const char *tenant)
{
    assert(metrics->n_names <= TENANT_LABELS_MAX && "the last series is everybody else's");
    for (uint32_t i = 0; i < metrics->n_names; i++)
        if (strcmp(metrics->names[i], tenant) == 0)
            return &metrics->series[i];
    return &metrics->series[TENANT_LABELS_MAX];
}
