#include "cli/command.h"

#include "api/doors.h"
#include "base/config/nearest.h"
#include "ctx_worker/ctx_config.h"
#include "ctx_worker/ctx_worker.h"
#include "gen_worker/gen_config.h"
#include "gen_worker/gen_worker.h"
#include "router/router.h"
#include "router/router_config.h"
#include "text/template_keeper.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int run_router(const struct config_input *input)
{
    return router_main(input, &api_doors);
}

static const struct command COMMANDS[] = {
    {
        .name = "serve",
        .full_name = "kvferry serve",
        .usage = "MODEL",
        .summary = "start a router and workers on this machine",
        .help =
            "Serves the model in the folder MODEL with a router, context workers and generation\n"
            "workers on this machine, until Ctrl-C or SIGTERM.",
        .examples = "  kvferry serve models/llama\n"
                    "  kvferry serve models/llama --n-generation-workers 2 --kv-memory 4G\n"
                    "  kvferry serve models/llama --grpc-address :50051 --insecure\n",
        .table = serve_config_table,
        .run = serve_main,
    },
    {
        .name = "generate",
        .full_name = "kvferry generate",
        .usage = "[TEXT]",
        .summary = "send a prompt and print the reply as it arrives",
        .help = "Sends TEXT, or the text of a file, to a router and prints the reply of the model.",
        .examples = "  kvferry generate \"In the beginning\"\n"
                    "  kvferry generate --model models/llama --temperature 0 \"In the beginning\"\n"
                    "  kvferry generate --prompt-file question.txt --stop \"\\n\\n\" --stop END\n",
        .table = generate_config_table,
        .run = generate_main,
    },
    {
        .name = "chat",
        .full_name = "kvferry chat",
        .usage = "[TEXT]",
        .summary = "talk to a model that has a chat template",
        .help =
            "Sends messages to a router, which makes the prompt by the model's chat template, "
            "and prints\nthe answers. With TEXT, or with text from a pipe, it prints one answer "
            "and exits; on a terminal\nit is a conversation, and /help shows its commands.",
        .examples = "  kvferry chat\n"
                    "  kvferry chat --system \"Answer in one sentence.\" \"What is a KV cache?\"\n"
                    "  kvferry chat --temperature 0 < question.txt\n",
        .table = chat_config_table,
        .run = chat_main,
    },
    {
        .name = "ps",
        .full_name = "kvferry ps",
        .summary = "show the state of a router and its workers",
        .help = "Shows the state of a router and of each worker that it knows.",
        .examples = "  kvferry ps\n  kvferry ps --server 10.0.0.7:50051\n  kvferry ps --watch\n",
        .table = ps_config_table,
        .run = ps_main,
    },
    {
        .name = "trace",
        .full_name = "kvferry trace",
        .usage = "[TEXT]",
        .summary = "send a prompt and write where its time went, for Perfetto",
        .help = "Sends TEXT, or the text of a file, to a router, prints the reply, and writes a "
                "trace with a track "
                "for each\nprocess: router, context worker, KV transfer and generation worker.",
        .examples = "  kvferry trace --prompt-file question.txt --out trace.json\n"
                    "  kvferry trace --config request.yaml\n",
        .table = trace_config_table,
        .run = trace_main,
    },
    {
        .name = "drain",
        .full_name = "kvferry drain",
        .summary = "let a process finish its requests and accept no more",
        .help =
            "Makes a router or a worker refuse new requests and finish those that it has. SIGTERM "
            "does the\nsame and then ends the process. Only a restart undoes it.",
        .examples =
            "  kvferry drain --server 10.0.0.9:50052 --cluster-key cluster.key --wait-ms 60s\n",
        .table = drain_config_table,
        .run = drain_main,
    },
    {
        .name = "adapter",
        .full_name = "kvferry adapter",
        .summary = "list LoRA adapters, load and unload them while a worker serves",
        .help = "Prints digest and name of each adapter of a process, after unloading one and "
                "loading one if asked to.\nLoad it in each context and generation worker: a pair "
                "needs an adapter on both.\nA load lasts until its files are read. "
                "deadline_ms ends the wait for it, not the load.",
        .examples =
            "  kvferry adapter --server 10.0.0.9:50052\n"
            "  kvferry adapter --server 10.0.0.9:50052 --load law=law-2026 --deadline-ms 1m\n"
            "  kvferry adapter --server 10.0.0.9:50052 --unload law --load law=law-2027\n",
        .table = adapter_config_table,
        .run = adapter_main,
    },
    {
        .name = "check-model",
        .full_name = "kvferry check-model",
        .usage = "MODEL",
        .summary = "check a model folder",
        .help =
            "Reads a model folder as a worker does, and prints what it contains or what is wrong.",
        .examples = "  kvferry check-model models/llama\n",
        .table = check_model_config_table,
        .run = check_model_main,
    },
    {
        .name = "eval",
        .full_name = "kvferry eval",
        .usage = "MODEL",
        .summary = "measure how well a model predicts a text, also against another model",
        .help =
            "Computes the perplexity of a text. With --against it also says how far the model's\n"
            "predictions are from those of another model, such as the one it was quantized from.",
        .examples =
            "  kvferry eval models/llama --text book.txt\n"
            "  kvferry eval llama.Q4_K_M.gguf --text book.txt --against models/llama\n"
            "  kvferry eval models/llama --text book.txt --weights int8 --against models/llama\n",
        .table = eval_config_table,
        .run = eval_main,
    },
    {
        .name = "calibrate",
        .full_name = "kvferry calibrate",
        .usage = "MODEL",
        .summary = "make the scales of K and V for caches of 8 bits",
        .help = "Runs a text through the model and keeps the largest magnitudes of K and V of each "
                "layer. Workers\n"
                "with --kv-dtype int8 or e4m3 make their scales of them.",
        .examples = "  kvferry calibrate models/llama --text book.txt\n"
                    "  kvferry serve models/llama --kv-dtype int8\n",
        .table = calibrate_config_table,
        .run = calibrate_main,
    },
    {
        .name = "token",
        .full_name = "kvferry token",
        .usage = "TENANT",
        .summary = "make the token of a tenant",
        .help = "Prints a new bearer token, and on standard error the row for the router's tokens "
                "file. The\nfile contains the hash of each token, not the token.",
        .examples = "  kvferry token acme --requests-at-once 8 > acme.token 2>> rows.yaml\n"
                    "  kvferry token ops --methods ListModels --methods reflection\n",
        .table = token_config_table,
        .run = token_main,
    },
    {
        .name = "key",
        .full_name = "kvferry key",
        .usage = "FILE",
        .summary = "make a cluster key",
        .help =
            "Writes a new cluster key to FILE, with mode 0600. The processes of a cluster use the "
            "key to\nauthenticate to each other (--cluster-key). An existing FILE is not replaced.",
        .examples = "  kvferry key cluster.key\n",
        .run = key_main,
    },
    {
        .name = "version",
        .full_name = "kvferry version",
        .summary = "show the build and what this machine supports",
        .help = "Shows the version, the libraries, and the kernels that this machine can run.",
        .run = version_main,
    },
    {
        .name = "completion",
        .full_name = "kvferry completion",
        .usage = "SHELL",
        .summary = "print completion for bash, zsh or fish",
        .help = "Prints the completion script of kvferry for SHELL (bash, zsh or fish).",
        .examples = "  source <(kvferry completion bash)\n"
                    "  kvferry completion fish > ~/.config/fish/completions/kvferry.fish\n",
        .run = completion_main,
    },
    {
        .name = "reference",
        .full_name = "kvferry reference",
        .usage = "config|errors|metrics|ports|man [COMMAND]",
        .summary = "print a page of docs/reference or a man page",
        .help = "Prints a page made from the tables in the code.",
        .run = reference_main,
        .is_hidden = true,
    },
    {
        .name = KEEPER_COMMAND,
        .full_name = "kvferry " KEEPER_COMMAND,
        .summary = "start and end the processes that render chat templates",
        .help = "Is started by a router.",
        .run = template_keeper_main,
        .is_hidden = true,
    },
    {
        .name = "router",
        .full_name = "kvferry router",
        .usage = "MODEL",
        .summary = "role: accept requests and choose workers for them",
        .help =
            "Accepts requests on the public API and chooses workers for them. It reads only the\n"
            "tokenizer of MODEL.",
        .examples = "  kvferry router models/llama --generation-workers 10.0.0.8:50052 \\\n"
                    "      --context-workers 10.0.0.9:50052 --grpc-address :50051 --insecure\n"
                    "  kvferry router models/llama --generation-workers gen.example.com:50052 \\\n"
                    "      --context-workers ctx.example.com:50052\n",
        .table = router_config_table,
        .run = run_router,
        .is_role = true,
    },
    {
        .name = "ctx-worker",
        .full_name = "kvferry ctx-worker",
        .usage = "MODEL",
        .summary = "role: compute prompts (prefill)",
        .help = "Computes prompts (prefill) and sends their KV blocks to generation workers.",
        .examples = "  kvferry ctx-worker models/llama --control-address :50052 --insecure\n",
        .table = ctx_config_table,
        .run = ctx_worker_main,
        .is_role = true,
    },
    {
        .name = "gen-worker",
        .full_name = "kvferry gen-worker",
        .usage = "MODEL",
        .summary = "role: generate tokens (decode)",
        .help = "Generates tokens (decode); fetches the KV blocks of prompts from context workers.",
        .examples = "  kvferry gen-worker models/llama --control-address :50052 --insecure\n",
        .table = gen_config_table,
        .run = gen_worker_main,
        .is_role = true,
    },
};

#define N_COMMANDS (sizeof COMMANDS / sizeof *COMMANDS)

static const struct config_group GROUPS[] = {
    {"Server", "server model deadline_ms wait_ms"},
    {"Prompt and output",
     "prompt_file system system_file echo verbose expect_handover "
     "handover_wait_ms choices logprobs prompt_logprobs json "
     "watch watch_ms out answer_bytes_max messages_max history_lines manifest max_tokens stop "
     "ignore_eos add_special_tokens request_id "
     "cache_salt"},
    {"Text to predict", "text out against against_weights against_kv_dtype window_tokens "
                        "stride_tokens parts tokens_max"},
    {"Sampling", "temperature top_k top_p min_p typical_p epsilon_cutoff eta_cutoff "
                 "repetition_penalty presence_penalty frequency_penalty no_repeat_ngram_size seed "
                 "reply_window"},
    {"Beam search", "beams length_penalty early_stopping"},
    {"Text of the reply", "json_schema json_object regex grammar choice"},
    {"Processes", "n_context_workers n_generation_workers restart quiet name"},
    {"Workers", "generation_workers context_workers resolve_ms poll_ms poll_limit_ms attempts_max"},
    {"Addresses",
     "grpc_address http_address engine_address control_address health_address metrics_address "
     "metrics_compat advertise_address "
     "insecure ports_file"},
    {"Model", "served_model_name max_context_tokens weights tokenizer "
              "adapter adapter_rank_max adapter_folder adapter_memory load unload"},
    {"KV blocks", "kv_block_tokens kv_blocks kv_memory kv_dtype kv_scales kv_scrub kv_manager "
                  "kv_host_memory kv_disk kv_disk_size kv_restore_ms "
                  "prefix_cache snapshot_tokens prefixes_max kv_events_max kv_event_streams_max "
                  "kv_event_blocks_max"},
    {"Computing",
     "device device_memory device_math threads pin cpu_placement cpu_kernels "
     "attention_kernels attention_math attention_path multi_block grouped_query "
     "attention_window force_window sink_tokens "
     "block_activations "
     "prefill_chunk_tokens prefill_step_ms "
     "prefill_batch_tokens sequences_max speculate draft_model draft_weights draft_memory "
     "capacity_policy capacity_headroom_blocks "
     "priority_aging_ms"},
    {"KV transfer",
     "kv_transport kv_network kv_digest ucx_net_devices ucx_port_range kv_unproven_max kv_proof_ms "
     "peers_max pieces_max "
     "prefills_max allow_numerics kv_convert local_prefill local_prefill_max_tokens "
     "context_limit_ms "
     "context_limit_tokens context_limit_max_ms transfer_limit_ms transfer_limit_mib_ms "
     "commit_limit_ms quiet_limit_ms describe_limit_ms lease_limit_ms "
     "lease_limit_mib_ms"},
    {"Queues", "requests_max wait_max wait_limit_ms prompts_max caller_share queue_max "
               "queue_limit_ms prompt_tokens_max text_inline_bytes text_queue_max "
               "text_queue_bytes_max reply_bytes_max"},
    {"Calls", "calls_max message_bytes_max header_bytes_max streams_per_connection_max "
              "stream_buffer_bytes_max slow_reader_ms default_deadline_ms keepalive_ms "
              "keepalive_timeout_ms connection_age_ms"},
    {"Limits on clients",
     "relay_connections_max relay_unproven_max relay_address_connections_max "
     "relay_address_connections_per_s relay_address_streams_max relay_half_open_max "
     "relay_request_bytes_max relay_address_request_bytes_max relay_connection_request_bytes_max "
     "relay_address_half_open_max relay_unanswered_max relay_resets_per_s "
     "relay_address_resets_per_s relay_pings_per_s "
     "relay_controls_per_s relay_header_frames_max relay_handshake_ms relay_unproven_ms "
     "relay_handshakes_per_s relay_settings_ms relay_frame_ms relay_stall_ms relay_behind_ms "
     "relay_half_open_ms "
     "relay_request_ms "
     "relay_exempt http_target_bytes_max http_fields_max http_reply_bytes_max http_head_ms "
     "http_idle_ms http_comment_ms http_hosts"},
    {"Chat",
     "chat_template chat_template_bytes_max chat_protect_tokens chat_renderers "
     "chat_render_ms chat_render_cpu_ms chat_render_steps chat_render_memory "
     "chat_request_bytes_max chat_messages_max chat_parts_max chat_calls_max chat_tools_max "
     "chat_tool_bytes_max chat_documents_max chat_argument_bytes_max chat_prompt_bytes_max "
     "chat_tokens_max"},
    {"Page", "page page_names page_readers_max page_interval_ms page_behind_ms page_requests_max "
             "page_ended_max"},
    {"Constraints", "constraint_bytes_max constraint_grammar_bytes_max constraint_choices_max "
                    "constraint_compile_ms "
                    "constraints_kept constraint_memory_max constraint_queue_max"},
    {"Tenants",
     "tokens_file salt_key_file token_file methods requests_per_second tokens_per_minute "
     "requests_at_once shares_prefix_cache weight priority priority_max"},
    {"Hardening", "core_dumps seccomp"},
    {"Cluster key", "cluster_key auth_nonces_max"},
    {"TLS", "tls tls_ca tls_certificate tls_key tls_client_ca health_tls peer_certificate peer_key "
            "peer_ca cluster_name"},
    {"Logs and shutdown",
     "dry_run log_level log_format access_log drain_delay_ms drain_limit_ms watchdog_ms"},
    {"Traces", "otlp_endpoint otlp_tls_ca trace_ratio trace_rate_max"},
    {NULL, NULL},
};

/* Variables that are read without a row: by kernels/, by token_source (a secret must not be a flag, which
 * ps(1) would show), and by tests (a shell may export them to all commands). */
static const char *const VARIABLES[] = {
    "KVFERRY_CPU",
    "KVFERRY_ATTENTION",
    "KVFERRY_CASE",
    "KVFERRY_SIM_SEED",
    "KVFERRY_REWRITE_FEATURES",
    "KVFERRY_TOKEN",
    NULL,
};

const struct command *command_at(uint32_t index)
{
    return index < N_COMMANDS ? &COMMANDS[index] : NULL;
}

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(COMMANDS[i].name, name) == 0)
            return &COMMANDS[i];
    return NULL;
}

void command_hint(const char *name, char *hint_out, size_t hint_bytes)
{
    struct nearest nearest;
    char hint[NEAREST_HINT_BYTES];
    nearest_init(&nearest, name);
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!COMMANDS[i].is_hidden)
            nearest_offer(&nearest, COMMANDS[i].name);
    nearest_offer(&nearest, "help");
    nearest_hint(&nearest, hint);
    snprintf(hint_out, hint_bytes, "%s", hint);
}

const struct config_program *command_program(void)
{
    static const struct config_table *tables[N_COMMANDS + 1];
    static const struct config_program program = {
        .tables = tables, .variables = VARIABLES, .groups = GROUPS};
    for (size_t i = 0, n = 0; i < N_COMMANDS; i++)
        if (COMMANDS[i].table)
            tables[n++] = COMMANDS[i].table();
    return &program;
}

/* Commands that call a server: their rows are about one request. */
static bool is_client(const struct config_table *table)
{
    return config_find_row(table, "server", strlen("server")) != NULL;
}

/* A server ignores keys of a client's table, but servers refuse each other's keys, which look like their
 * own. A client ignores all known keys. */
static const struct config_table *const *neighbours_of(const struct command *command)
{
    static const struct config_table *clients[N_COMMANDS + 1];
    const struct config_program *program = command_program();
    if (!command->table)
        return NULL;
    if (is_client(command->table()))
        return program->tables;
    for (size_t i = 0, n = 0; program->tables[i]; i++)
        if (is_client(program->tables[i]))
            clients[n++] = program->tables[i];
    return clients;
}

struct config_input command_input(const struct command *command, int argc, char *const *argv,
                                  char *const *environment)
{
    assert(argc >= 0 && argv && environment);
    return (struct config_input){
        .command = command->full_name,
        .usage = command->usage,
        .argc = argc,
        .argv = argv,
        .environment = environment,
        .help = command->help,
        .examples = command->examples,
        .program = command_program(),
        .neighbours = neighbours_of(command),
    };
}

static int finish_check(const struct config *config, const struct config_input *input,
                        command_check check, const void *values)
{
    struct error error = {0};
    enum status status = check ? check(config, values, &error) : STATUS_OK;
    if (status == STATUS_OK)
        puts("the configuration is valid");
    else
        fprintf(stderr, "%s: %s\n", input->command,
                error.text[0] ? error.text : status_text(status));
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

bool command_configure_checked(const struct config_table *table, const struct config_input *input,
                               command_check check, void *values_out, struct config **config_out,
                               int *exit_out)
{
    assert(input->command && values_out);
    struct error error = {0};
    struct config *config = NULL;
    enum status status = config_load(table, input, values_out, &config, &error);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", input->command, error.text);
        *exit_out = config_exit_status(status);
        return true;
    }
    const char *sentence;
    assert(config);
    bool is_answered = config_answer(config, stdout);
    for (uint32_t i = 0; !is_answered && (sentence = config_warning(config, i)); i++)
        fprintf(stderr, "%s: warning: %s\n", input->command, sentence);
    *exit_out = EXIT_SUCCESS;
    config_forget_environment(config);
    if (!is_answered && config_is_check(config)) {
        *exit_out = finish_check(config, input, check, values_out);
        is_answered = true;
    }
    if (is_answered)
        config_destroy(config);
    else
        *config_out = config;
    return is_answered;
}

bool command_configure(const struct config_table *table, const struct config_input *input,
                       void *values_out, struct config **config_out, int *exit_out)
{
    return command_configure_checked(table, input, NULL, values_out, config_out, exit_out);
}
