/* worker_metrics: what a data port has counted is shown once, under its reason, and never falls. */
#include "worker_common/worker_metrics.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void has(const char *text, const char *line)
{
    cr_assert(strstr(text, line), "no %s in:\n%s", line, text);
}

Test(worker_metrics, the_data_ports_figures_are_followed)
{
    static const char *const LINES[] = {
        "kvferry_data_port_connections{state=\"unproven\"} 3\n",
        "kvferry_data_port_connections{state=\"proven\"} 2\n",
        "kvferry_data_port_refused_total{reason=\"proof\"} 11\n",
        "kvferry_data_port_refused_total{reason=\"proof_time\"} 12\n",
        "kvferry_data_port_refused_total{reason=\"unproven_limit\"} 13\n",
        "kvferry_data_port_refused_total{reason=\"stranger\"} 14\n",
        "kvferry_data_port_refused_total{reason=\"resources\"} 15\n",
        "kvferry_data_port_bad_messages_total 20\n",
    };
    static const enum port_refusal ORDER[] = {PORT_PROOF, PORT_PROOF_TIME, PORT_UNPROVEN_LIMIT,
                                              PORT_STRANGER, PORT_RESOURCES};
    struct transport transport = {.port = {.n_unproven = 3, .n_proven = 2, .bad_messages = 20}};
    struct metrics *metrics;
    struct worker_metrics handles;
    struct port_figures last = {0};
    char *text;
    size_t bytes;
    cr_assert_eq(sizeof ORDER / sizeof *ORDER, PORT_REFUSALS);
    for (uint32_t i = 0; i < PORT_REFUSALS; i++)
        atomic_store(&transport.port.refused[ORDER[i]], 11 + i);
    cr_assert_eq(metrics_create("test", &metrics), STATUS_OK);
    worker_metrics_init(&handles, metrics);
    for (int i = 0; i < 2; i++) {
        worker_metrics_data_port(&handles, &transport, &last);
        cr_assert_eq(metrics_text(metrics, &text, &bytes), STATUS_OK);
        for (size_t l = 0; l < sizeof LINES / sizeof *LINES; l++)
            has(text, LINES[l]);
        free(text);
    }
    atomic_fetch_add(&transport.port.refused[PORT_PROOF], 1);
    atomic_store(&transport.port.n_unproven, 0);
    worker_metrics_data_port(&handles, &transport, &last);
    cr_assert_eq(counter_value(handles.port_proof), 12);
    cr_assert_eq(gauge_value(handles.port_unproven), 0.0);
    metrics_destroy(metrics);
}

Test(worker_metrics, the_kernels_are_told_in_labels)
{
    static const struct process_kernels KERNELS = {"avx512_bf16", "avx2", "measured", 8};
    char labels[WORKER_KERNEL_LABELS_MAX];
    struct metrics *metrics;
    char *text;
    size_t bytes;
    cr_assert_eq(metrics_create("test", &metrics), STATUS_OK);
    worker_metrics_kernels(metrics, &KERNELS, labels);
    cr_assert_eq(metrics_text(metrics, &text, &bytes), STATUS_OK);
    has(text, "kvferry_kernels_info{products=\"avx512_bf16\",attention=\"avx2\",chosen_by="
              "\"measured\"} 1\n");
    free(text);
    metrics_destroy(metrics);
}
