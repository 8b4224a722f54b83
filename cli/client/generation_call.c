#include "cli/client/generation_call.h"

#include "base/clock.h"
#include "base/wake.h"
#include "cli/client/call_guard.h"
#include "cli/client/listener.h"
#include "cli/client/prompt_bar.h"
#include "process/process_state.h"
#include "proto/kvferry/v1/model.pb-c.h"
#include "rpc/client/client.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define MODEL_LIMIT_MS 1000
#define TIMELINE_CELLS 40

/* The queue thread writes these members until it sends `ended`. */
struct running {
    struct generation_result *result;
    struct rpc_client_call *call;
    uint64_t called_ns;
    struct prompt_bar bar;
    struct reply_printer *printer;
    enum status refusal; /* of the printer, with why */
    struct error why;
    int ended; /* a wake */
};

static void take_end(const Kvferry__V1__GenerateResponse *response,
                     struct generation_result *result)
{
    result->reason = response->finish_reason;
    snprintf(result->request_id, sizeof result->request_id, "%s", response->request_id);
    if (response->usage) {
        result->prompt_tokens = response->usage->prompt_tokens;
        result->cached_tokens = response->usage->cached_tokens;
        result->generated_tokens = response->usage->generated_tokens;
        result->draft_tokens = response->usage->draft_tokens;
        result->accepted_tokens = response->usage->accepted_tokens;
    }
    const Kvferry__V1__Timing *timing = response->timing;
    if (!timing)
        return;
    result->queue_us = timing->queue_us;
    result->prefill_us = timing->prefill_us;
    result->transfer_us = timing->transfer_us;
    result->decode_us = timing->decode_us;
    result->first_token_us = timing->first_token_us;
    result->kv_bytes_received = timing->kv_bytes_received;
    result->kv_tokens_received = timing->kv_tokens_received;
    result->kv_tokens_recomputed = timing->kv_tokens_recomputed;
    snprintf(result->context_worker, sizeof result->context_worker, "%s", timing->context_worker);
    snprintf(result->generation_worker, sizeof result->generation_worker, "%s",
             timing->generation_worker);
    snprintf(result->transport, sizeof result->transport, "%s", timing->transport);
    result->prefill_place = timing->prefill_place;
    snprintf(result->prefill_reason, sizeof result->prefill_reason, "%s", timing->prefill_reason);
}

static void take_time(struct generation_result *result, uint64_t us)
{
    if (!result->first_seen_us)
        result->first_seen_us = us;
    else if (!result->second_seen_us)
        result->second_seen_us = us;
    result->last_seen_us = us;
}

static void on_message(void *arg, const ProtobufCMessage *message)
{
    struct running *running = arg;
    const Kvferry__V1__GenerateResponse *response = (const Kvferry__V1__GenerateResponse *)message;
    assert(running->call); /* set before any message arrives */
    if (response->prompt_progress)
        prompt_bar_show(&running->bar, response->prompt_progress->done_tokens,
                        response->prompt_progress->prompt_tokens);
    else
        prompt_bar_erase(&running->bar);
    if (response->n_token_ids > 0 && response->index == 0)
        take_time(running->result, (clock_now_ns() - running->called_ns) / NS_PER_US);
    if (running->refusal != STATUS_OK)
        return;
    if (!response->prompt_progress)
        running->refusal = reply_printer_take(running->printer, response, &running->why);
    if (running->refusal != STATUS_OK)
        rpc_client_call_cancel(running->call);
    if (response->finish_reason != KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED)
        take_end(response, running->result);
}

static void on_end(void *arg, const struct rpc_error *error)
{
    struct running *running = arg;
    prompt_bar_erase(&running->bar);
    running->result->error = *error;
    if (running->refusal != STATUS_OK)
        rpc_error_set(&running->result->error, running->refusal, NULL, NULL, "%s",
                      running->why.text[0] ? running->why.text : status_text(running->refusal));
    wake_send(running->ended);
}

/* Waits until the call has ended; a signal cancels it. After that it may still wait without end for
 * the reader of standard output: therefore the guard handles a second signal. */
static void wait_for_end(const struct running *running)
{
    assert(running->call && running->ended >= 0);
    struct pollfd fds[] = {{.fd = running->ended, .events = POLLIN},
                           {.fd = call_guard_enter_call(), .events = POLLIN}};
    for (;;) {
        (void)poll(fds, 2, -1);
        if (fds[0].revents)
            break;
        if (fds[1].revents) {
            rpc_client_call_cancel(running->call);
            fds[1].fd = -1;
        }
    }
    reply_printer_end_line(running->printer); /* a later signal ends the process at once */
    call_guard_leave_call();
}

static enum status call(struct rpc_channel *channel, const struct generation_call_options *options,
                        const Kvferry__V1__GenerateRequest *message, struct running *running)
{
    struct rpc_request request = {
        .path = "/kvferry.v1.GenerationService/Generate",
        .message = &message->base,
        .response = &kvferry__v1__generate_response__descriptor,
        .is_stream = true,
        .wait_for_ready = options->wait_for_server,
        .deadline_ns = clock_now_ns() + options->deadline_ms * NS_PER_MS,
        .on_message = on_message,
        .on_end = on_end,
        .arg = running,
        .headers = {{"authorization", options->authorization}},
        .n_headers = options->authorization[0] != '\0',
    };
    running->called_ns = clock_now_ns();
    TRY(rpc_channel_start(channel, &request, &running->call));
    wait_for_end(running);
    rpc_client_call_release(running->call);
    return STATUS_OK;
}

static void on_models(void *arg, const ProtobufCMessage *message)
{
    const Kvferry__V1__ListModelsResponse *response = (const Kvferry__V1__ListModelsResponse *)
        message;
    struct generation_result *result = arg;
    for (size_t i = 0; i < response->n_models; i++) {
        result->has_chat_template |= response->models[i]->has_chat_template;
        result->context_tokens = response->models[i]->context_tokens;
    }
}

/* A client that may not ask, or a router of before, knows nothing. */
static void ask_for_model(struct rpc_channel *channel,
                          const struct generation_call_options *options,
                          struct generation_result *result)
{
    struct rpc_error ignored;
    Kvferry__V1__ListModelsRequest message = KVFERRY__V1__LIST_MODELS_REQUEST__INIT;
    const struct rpc_request request = {
        .path = "/kvferry.v1.ModelService/ListModels",
        .message = &message.base,
        .response = &kvferry__v1__list_models_response__descriptor,
        .deadline_ns = clock_now_ns() + MODEL_LIMIT_MS * NS_PER_MS,
        .on_message = on_models,
        .arg = result,
        .headers = {{"authorization", options->authorization}},
        .n_headers = options->authorization[0] != '\0',
    };
    (void)!rpc_channel_call_wait(channel, &request, &ignored);
}

/* Of a whole reply: what else is to be asked, and the end of what is printed. */
static void end_reply(struct rpc_channel *channel, const struct generation_call_options *options,
                      const struct running *running)
{
    struct reply_printer *printer = running->printer;
    struct rpc_error error = {0};
    if (reply_printer_needs_texts(printer) &&
        reply_texts_ask(channel, options->authorization,
                        clock_now_ns() + options->deadline_ms * NS_PER_MS, &printer->reply,
                        &printer->texts, &error) != STATUS_OK)
        fprintf(stderr, "%s: warning: tokens without text: %s: %s\n", options->command,
                status_name(error.status), error.message);
    reply_printer_end(printer);
    const bool is_cut = running->result->reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH;
    if (options->asks_for_template || (options->asks_for_context && is_cut))
        ask_for_model(channel, options, running->result);
}

static enum status connect_and_call(const struct generation_call_options *options,
                                    const Kvferry__V1__GenerateRequest *message,
                                    struct running *running, struct error *error)
{
    struct rpc_runtime *runtime = NULL;
    struct rpc_client *client = NULL;
    struct rpc_channel *channel = NULL;
    struct rpc_client_options client_options;
    rpc_client_options_init(&client_options);
    client_options.tls = options->tls;
    enum status status = rpc_runtime_create("rpc-client", error, &runtime);
    if (status == STATUS_OK)
        status = rpc_client_create(runtime, &client_options, &client);
    if (status == STATUS_OK)
        status = rpc_channel_open(client, options->server, &channel);
    if (status == STATUS_OK)
        status = call(channel, options, message, running);
    if (status == STATUS_OK && running->result->error.status == STATUS_OK)
        end_reply(channel, options, running);
    call_guard_limit(0);
    rpc_channel_close(channel);
    rpc_client_destroy(client);
    rpc_runtime_destroy(runtime);
    return status;
}

void generation_call_run(const struct generation_call_options *options,
                         const Kvferry__V1__GenerateRequest *request, struct reply_printer *printer,
                         struct generation_result *result_out)
{
    assert(options->server && options->authorization && options->command);
    *result_out = (struct generation_result){0};
    uint64_t began_ns = clock_now_ns();
    struct running running = {.result = result_out, .printer = printer, .ended = wake_open()};
    struct error error = {0};
    const struct call_guard_options guard = {.command = options->command,
                                             .takes_signals = true,
                                             .end = options->end,
                                             .arg = options->arg};
    enum status status = running.ended >= 0 ? call_guard_begin(&guard, &error) : STATUS_IO_FAILED;
    if (status == STATUS_OK) {
        call_guard_limit(options->deadline_ms);
        status = connect_and_call(options, request, &running, &error);
        result_out->signal_number = call_guard_end();
    }
    result_out->has_text = printer->has_text;
    result_out->is_unprinted = printer->is_unprinted;
    if (running.ended >= 0)
        close(running.ended);
    if (status != STATUS_OK)
        rpc_error_set(&result_out->error, status, NULL, NULL, "%s",
                      error.text[0] ? error.text : status_text(status));
    result_out->total_us = (clock_now_ns() - began_ns) / NS_PER_US;
}

enum status generation_result_check(const struct generation_result *result, const char *address,
                                    uint64_t deadline_ms, struct error *error)
{
    const struct rpc_error *found = &result->error;
    const enum status status = found->status;
    if (status == STATUS_PEER_LOST && address && !result->has_text)
        listener_explain(address, found->message, error);
    else if (status == STATUS_UNIMPLEMENTED && address)
        error_write(
            error,
            "%s does not accept prompts: is it a control port? give the public port of a router",
            address);
    else if (status == STATUS_TIMED_OUT)
        error_write(error, "%s: not done after %" PRIu64 " ms (--deadline-ms): %s",
                    status_name(status), deadline_ms, found->message);
    else if (status != STATUS_OK)
        error_write(error, "%s: %s", status_name(status), found->message);
    return status;
}

static void print_ms(FILE *out, const char *what, uint64_t us)
{
    fprintf(out, "  %-18s %.2f ms\n", what, (double)us / 1000);
}

static void print_context_worker(const struct generation_result *result, FILE *out)
{
    if (result->context_worker[0])
        fprintf(out, "  %-18s %s\n", "context worker", result->context_worker);
    else if (result->prefill_reason[0])
        fprintf(out, "  %-18s none (%s): %s\n", "context worker",
                prefill_place_name(result->prefill_place), result->prefill_reason);
    else
        fprintf(out, "  %-18s none: computed locally\n", "context worker");
}

void generation_result_timeline(const struct generation_result *result,
                                struct timeline *timeline_out)
{
    const struct timeline_times times = {
        .first_token_us = result->first_seen_us ? result->first_seen_us : result->first_token_us,
        .kv_there_us = result->second_seen_us,
        .total_us = result->last_seen_us ? result->last_seen_us : result->total_us,
        .queue_us = result->queue_us,
        .prefill_us = result->prefill_us,
        .transfer_us = result->transfer_us,
        .decode_us = result->decode_us,
    };
    timeline_make(&times, timeline_out);
}

/* A part that is there has a cell at least. */
static void print_part(FILE *out, const char *name, const struct timeline_part *part,
                       uint64_t total_us, const char *where)
{
    char cells[TIMELINE_CELLS + 1];
    assert(total_us > 0);
    uint64_t from = part->from_us * TIMELINE_CELLS / total_us;
    uint64_t to = (part->from_us + part->us) * TIMELINE_CELLS / total_us;
    memset(cells, ' ', TIMELINE_CELLS);
    cells[TIMELINE_CELLS] = '\0';
    from = from < TIMELINE_CELLS ? from : TIMELINE_CELLS - 1;
    for (uint64_t at = from; part->us > 0 && (at == from || at < to); at++)
        cells[at] = '#';
    fprintf(out, "    %-16s |%s|%s%s\n", name, cells, where[0] ? " " : "", where);
}

static void print_timeline(const struct generation_result *result, FILE *out)
{
    struct timeline timeline;
    char moved[64] = "";
    generation_result_timeline(result, &timeline);
    if (timeline.total_us == 0 || !result->generation_worker[0])
        return;
    bool is_remote = result->context_worker[0] != '\0';
    const char *where = is_remote ? result->context_worker : result->generation_worker;
    if (timeline.transfer.us > 0)
        snprintf(moved, sizeof moved, "%.1f KiB over %s", (double)result->kv_bytes_received / 1024,
                 result->transport);
    fprintf(out, "  %-18s %.2f ms to the last token, seen from here\n", "timeline",
            (double)timeline.total_us / 1000);
    print_part(out, "router, network", &timeline.route, timeline.total_us, "");
    print_part(out, "queue", &timeline.queue, timeline.total_us, where);
    print_part(out, "prefill", &timeline.prefill, timeline.total_us, where);
    print_part(out, "transfer", &timeline.transfer, timeline.total_us, moved);
    print_part(out, "decode", &timeline.decode, timeline.total_us, result->generation_worker);
}

void generation_result_print(const struct generation_result *result, FILE *out)
{
    print_context_worker(result, out);
    fprintf(out, "  %-18s %s\n", "generation worker", result->generation_worker);
    fprintf(out, "  %-18s %" PRIu64 " bytes%s%s, %u tokens received, %u computed locally\n", "KV",
            result->kv_bytes_received, result->transport[0] ? " over " : "", result->transport,
            result->kv_tokens_received, result->kv_tokens_recomputed);
    fprintf(out, "  %-18s %u prompt (%u cached), %u generated\n", "tokens", result->prompt_tokens,
            result->cached_tokens, result->generated_tokens);
    if (result->draft_tokens > 0)
        fprintf(out, "  %-18s %u guessed, %u of these right\n", "drafts", result->draft_tokens,
                result->accepted_tokens);
    print_ms(out, "first token", result->first_token_us);
    print_ms(out, "queue", result->queue_us);
    print_ms(out, "prefill", result->prefill_us);
    print_ms(out, "transfer", result->transfer_us);
    print_ms(out, "decode", result->decode_us);
    print_ms(out, "total", result->total_us);
    if (result->decode_us > 0 && result->generated_tokens > 1)
        fprintf(out, "  %-18s %.0f tokens/s\n", "speed",
                (double)(result->generated_tokens - 1) * 1e6 / (double)result->decode_us);
    print_timeline(result, out);
}
