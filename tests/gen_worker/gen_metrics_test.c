/* gen_metrics: each end counts once, under its reason and with its stages; totals are added once. */
#include "gen_worker/gen_metrics.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct metrics *registry;
static struct gen_metrics metrics;

static void set_up(void)
{
    cr_assert_eq(metrics_create("gen-worker", &registry), STATUS_OK);
    gen_metrics_init(&metrics, registry);
    gen_metrics_transport(&metrics, registry, "am-tcp");
}

static void tear_down(void)
{
    metrics_destroy(registry);
}

static void has(const char *line)
{
    char *text;
    size_t bytes;
    cr_assert_eq(metrics_text(registry, &text, &bytes), STATUS_OK);
    cr_expect(strstr(text, line), "no %s in:\n%s", line, text);
    free(text);
}

Test(gen_metrics, a_decode_is_counted_with_the_stages_that_it_had, .init = set_up,
     .fini = tear_down)
{
    gen_metrics_ended(&metrics, &(struct gen_finish){.status = STATUS_OK,
                                                     .place = GEN_PLACE_CONTEXT_WORKER,
                                                     .timing = {.queue_us = 900,
                                                                .wait_us = 400,
                                                                .prefill_us = 7,
                                                                .transfer_us = 3000,
                                                                .commit_us = 1000,
                                                                .kv_tokens_received = 35}});
    gen_metrics_ended(&metrics, &(struct gen_finish){.status = STATUS_OK,
                                                     .place = GEN_PLACE_SHORT_PROMPT,
                                                     .timing = {.prefill_us = 2000}});
    gen_metrics_ended(
        &metrics, &(struct gen_finish){.status = STATUS_NO_BLOCKS, .timing = {.wait_us = 30000}});
    has("kvferry_decodes_total{code=\"OK\",reason=\"\"} 2\n");
    has("kvferry_decodes_total{code=\"RESOURCE_EXHAUSTED\",reason=\"KV_FULL\"} 1\n");
    has("kvferry_decode_queue_seconds_count 3\n");
    has("kvferry_decode_queue_seconds_sum 0.0304\n");
    has("kvferry_kv_transfer_seconds_count 1\n");
    has("kvferry_kv_commit_seconds_sum 0.001\n");
    has("kvferry_prefill_seconds_count 1\n");
    has("kvferry_prefill_seconds_sum 0.002\n");
}

Test(gen_metrics, what_the_engine_has_counted_is_added_once, .init = set_up, .fini = tear_down)
{
    struct gen_engine_stats stats = {.queued = 2,
                                     .paused = 1,
                                     .pauses = 5,
                                     .rows_fetched = 6,
                                     .tokens_again = 80,
                                     .waiting_tokens = 70,
                                     .decoding = 3,
                                     .blocks_unowned = 1,
                                     .handovers_committed = 4,
                                     .handovers_failed = 3,
                                     .steps = 1,
                                     .steps_decode = 1,
                                     .batch_sequences = 3,
                                     .prompt_tokens_computed = 16};
    stats.handovers_failed_by[STATUS_PEER_LOST] = 2;
    stats.handovers_failed_by[STATUS_TIMED_OUT] = 1;
    for (int i = 0; i < 2; i++)
        gen_metrics_update(&metrics, &stats, 4096, 1000000);
    has("kvferry_decodes_waiting 3\n");
    has("kvferry_decodes_paused 1\n");
    has("kvferry_decode_pauses_total 5\n");
    has("kvferry_logit_rows_fetched_total 6\n");
    has("kvferry_decode_tokens_again_total 80\n");
    has("kvferry_decodes_waiting_tokens 70\n");
    has("kvferry_decodes_running 3\n");
    has("kvferry_kv_blocks_unowned 1\n");
    has("kvferry_kv_handovers_total{result=\"failed\"} 3\n");
    has("kvferry_kv_transfer_failures_total{reason=\"PEER_LOST\"} 2\n");
    has("kvferry_kv_transfer_failures_total{reason=\"DEADLINE\"} 1\n");
    has("kvferry_kv_transfer_bytes_total{transport=\"am-tcp\",direction=\"received\"} 4096\n");
    has("kvferry_step_seconds_count{phase=\"generation\"} 1\n");
    has("kvferry_batch_tokens_sum 19\n");
    has("kvferry_batch_sequences_sum 3\n");
}

Test(gen_metrics, under_vllms_names_only_when_asked, .init = set_up, .fini = tear_down)
{
    const struct gen_engine_stats stats = {.queued = 2,
                                           .decoding = 3,
                                           .n_blocks = 4,
                                           .blocks = {[BLOCK_FREE] = 1, [BLOCK_ACTIVE] = 3}};
    char *text;
    size_t bytes;
    gen_metrics_update(&metrics, &stats, 0, 0);
    cr_assert_eq(metrics_text(registry, &text, &bytes), STATUS_OK);
    cr_expect_null(strstr(text, "vllm"));
    free(text);
    compat_metrics_init(&metrics.compat, registry, 16, 4);
    gen_metrics_update(&metrics, &stats, 0, 0);
    has("vllm:num_requests_waiting 2\n");
    has("vllm:num_requests_running 3\n");
    has("vllm:kv_cache_usage_perc 0.75\n");
    has("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"4\"} 1\n");
}
