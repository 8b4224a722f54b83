/*
 * tenant_metrics - the metrics of each tenant.
 *
 * Bounds: the first TENANT_LABELS_MAX tenants of the file at start have their own label; all others count
 * as tenant="other", so a changed file makes no new series.
 *
 * Thread: any, after create.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "router/admission/tenant_file.h"

#define TENANT_LABELS_MAX 16u

struct tenant_series {
    struct counter *requests, *prompt_tokens, *generated_tokens, *over_quota;
};

struct tenant_metrics {
    struct counter *no_token, *unknown_token, *not_allowed;
    struct tenant_series series[TENANT_LABELS_MAX + 1]; /* the last: other */
    char names[TENANT_LABELS_MAX][TENANT_NAME_MAX + 1];
    uint32_t n_names;
    char labels[TENANT_LABELS_MAX + 1][3][TENANT_NAME_MAX + 32]; /* the registry borrows them */
};

/* rows may be NULL when there are none. metrics must outlive registry. */
void tenant_metrics_create(struct tenant_metrics *metrics, struct metrics *registry,
                           const struct tenant_row *rows, uint32_t n_rows);
const struct tenant_series *tenant_metrics_of(const struct tenant_metrics *metrics,
                                              const char *tenant);
