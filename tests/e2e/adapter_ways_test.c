/* A request with an adapter has it in every row that is computed for it: of guessed tokens, behind a pause, of its prompt's
 * log-probabilities and of its further choices. Over HTTP it is named as a model, and listed as one. */
#include "support/client.h"
#include "support/cluster.h"
#include "support/command.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADAPTERS KVFERRY_SOURCE_DIR "/tests/golden/adapters"

enum { N_KINDS = 3, N_PROMPT = 130, N_TOKENS = 200, N_TOP = 3, LIMIT_MS = 120000 };

static const char DEMO_A[] = "a=" ADAPTERS "/demo", DEMO_B[] = "b=" ADAPTERS "/demo_other";
static const char *const KINDS[N_KINDS] = {NULL, "a", "b"};
static const char *const BOTH[] = {"--adapter", DEMO_A, "--adapter", DEMO_B, NULL};

static struct cluster cluster;
static struct client *client;
static uint32_t prompt[N_PROMPT];

static void open_cluster(uint32_t n_contexts, const char *const *generation)
{
    static const char *const http[] = {"--http-address", "127.0.0.1:0", NULL};
    prompt_tokens(5, prompt, N_PROMPT);
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = n_contexts,
                                                      .n_generations = 1,
                                                      .both = BOTH,
                                                      .router = http,
                                                      .generation = generation});
    client = client_create(cluster.router.grpc);
}

static void close_cluster(void)
{
    client_destroy(client);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

static struct generation request(uint32_t kind)
{
    return (struct generation){.model = KINDS[kind],
                               .tokens = prompt,
                               .n_tokens = N_PROMPT,
                               .max_tokens = N_TOKENS,
                               .ignore_eos = true};
}

static void run_kinds(bool at_once, struct generation generations[N_KINDS])
{
    for (uint32_t i = 0; i < N_KINDS; i++) {
        client_start(client, &generations[i]);
        if (!at_once)
            cr_assert(client_wait(client, &generations[i], LIMIT_MS));
    }
    for (uint32_t i = 0; i < N_KINDS; i++) {
        cr_assert(client_wait(client, &generations[i], LIMIT_MS));
        cr_assert_eq(generations[i].error.status, STATUS_OK, "%s", generations[i].error.message);
    }
}

static void ask_kinds(bool at_once, struct generation generations[N_KINDS])
{
    for (uint32_t i = 0; i < N_KINDS; i++)
        generations[i] = request(i);
    run_kinds(at_once, generations);
}

static bool same(const struct generation *a, const struct generation *b)
{
    return a->n_generated == b->n_generated &&
           memcmp(a->generated, b->generated, a->n_generated * sizeof *a->generated) == 0;
}

static void expect_same(const struct generation *some, const struct generation *expected,
                        const char *what)
{
    for (uint32_t i = 0; i < N_KINDS; i++)
        cr_expect(same(&some[i], &expected[i]), "%s, kind %u", what, i);
}

/* ---- rows of a worker ---- */

Test(adapter_ways, guessed_tokens_and_pauses_change_none)
{
    static const char *const LOOKUP[] = {"--speculate", "lookup", "--local-prefill-max-tokens", "0",
                                         NULL};
    static const char *const SMALL[] = {"--speculate",
                                        "lookup",
                                        "--kv-blocks",
                                        "24",
                                        "--kv-block-tokens",
                                        "32",
                                        "--capacity-policy",
                                        "max-utilization",
                                        "--capacity-headroom-blocks",
                                        "0",
                                        "--prefix-cache=off",
                                        NULL};
    static struct generation plain[N_KINDS], guessed[N_KINDS], paused[N_KINDS];
    open_cluster(0, NULL);
    ask_kinds(false, plain);
    close_cluster();
    cr_assert(!same(&plain[0], &plain[1]) && !same(&plain[1], &plain[2]));
    open_cluster(1, LOOKUP);
    ask_kinds(false, guessed);
    expect_same(guessed, plain, "guessed");
    ask_kinds(true, guessed);
    expect_same(guessed, plain, "guessed in company");
    const double accepted = child_metric(&cluster.generations[0],
                                         "kvferry_draft_tokens_accepted_total", "");
    cr_expect_gt(accepted, 0);
    close_cluster();
    open_cluster(0, SMALL);
    double n_pauses = 0;
    for (int round = 0; round < 10 && n_pauses == 0; round++) {
        ask_kinds(true, paused);
        expect_same(paused, plain, "paused");
        n_pauses = child_metric(&cluster.generations[0], "kvferry_decode_pauses_total", "");
    }
    cr_expect_gt(n_pauses, 0);
    close_cluster();
}

/* The rows of a prompt are those of the last layer, too. */
static void ask_scores(struct generation generations[N_KINDS],
                       struct client_score scores[N_KINDS][N_PROMPT])
{
    for (uint32_t i = 0; i < N_KINDS; i++) {
        generations[i] = request(i);
        generations[i].max_tokens = 4;
        generations[i].scores = scores[i];
        generations[i].n_top = N_TOP;
    }
    run_kinds(true, generations);
}

Test(adapter_ways, a_prompts_log_probabilities_are_the_same_split_and_single)
{
    static const char *const CROSSING[] = {"--local-prefill-max-tokens", "0", NULL};
    static struct generation generations[N_KINDS];
    static struct client_score single[N_KINDS][N_PROMPT], split[N_KINDS][N_PROMPT];
    open_cluster(0, NULL);
    ask_scores(generations, single);
    close_cluster();
    open_cluster(1, CROSSING);
    ask_scores(generations, split);
    for (uint32_t i = 0; i < N_KINDS; i++) {
        cr_expect_str_not_empty(generations[i].context_worker);
        cr_expect_eq(generations[i].n_scored, N_PROMPT);
        cr_expect_eq(memcmp(single[i], split[i], sizeof single[i]), 0, "kind %u", i);
        cr_expect(i == 0 || memcmp(single[i], single[0], sizeof single[i]) != 0, "kind %u", i);
    }
    close_cluster();
}

/* ---- tiers ---- */

/* One prompt with each, so that blocks of one push out those of another. They come back to their own alone. */
static void expect_restored(const char *const *generation)
{
    enum { N_LONG = 600 };
    static struct generation cold[N_KINDS], warm[N_KINDS];
    static uint32_t tokens[N_LONG];
    prompt_tokens(6, tokens, N_LONG);
    open_cluster(0, generation);
    for (uint32_t i = 0; i < N_KINDS; i++) {
        cold[i] = request(i);
        cold[i].tokens = tokens;
        cold[i].n_tokens = N_LONG;
        cold[i].max_tokens = 12;
        warm[i] = cold[i];
    }
    run_kinds(false, cold);
    for (uint32_t i = 0; i < N_KINDS; i++)
        cr_expect_eq(cold[i].cached_tokens, 0, "kind %u found another's", i);
    run_kinds(false, warm);
    expect_same(warm, cold, "restored");
    cr_expect_gt(child_metric(&cluster.generations[0], "kvferry_kv_tier_restored_tokens_total", ""),
                 0);
    close_cluster();
}

Test(adapter_ways, blocks_of_a_tier_are_those_of_the_adapter, .init = command_folder_make,
     .fini = command_folder_remove)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%s", in_folder("tier"));
    expect_restored((const char *const[]){"--kv-blocks", "100", "--kv-restore-ms", "60000",
                                          "--kv-disk", folder, "--kv-disk-size", "200M", NULL});
    expect_restored((const char *const[]){"--kv-blocks", "100", "--kv-restore-ms", "60000",
                                          "--kv-host-memory", "200M", NULL});
}

/* ---- over HTTP ---- */

/* begin: method and path. The caller frees the body. */
static json_t *ask_http(const char *begin, const char *body, int *code_out)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(cluster.router.http),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    enum { ROOM = 1 << 18 };
    char *bytes = malloc(ROOM);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bytes && fd >= 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    const int n = snprintf(bytes, ROOM,
                           "%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           "Connection: close\r\nContent-Length: %zu\r\n\r\n%s",
                           begin, strlen(body), body);
    cr_assert(n > 0 && n < ROOM && send(fd, bytes, (size_t)n, MSG_NOSIGNAL) == n);
    size_t at = 0;
    for (ssize_t got; at < ROOM - 1 && (got = recv(fd, bytes + at, ROOM - 1 - at, 0)) > 0;)
        at += (size_t)got;
    bytes[at] = '\0';
    close(fd);
    const char *json = strstr(bytes, "\r\n\r\n");
    cr_assert(json && sscanf(bytes, "HTTP/1.1 %d", code_out) == 1, "%s", bytes);
    json_t *root = json_loads(json + 4, 0, NULL);
    cr_assert_not_null(root, "%s", bytes);
    free(bytes);
    return root;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* n choices with seeds side by side. */
static json_t *complete(const char *model, int n, int seed)
{
    char body[400];
    int code;
    snprintf(body, sizeof body,
             "{%s%s%s\"prompt\": \"In the beginning\", \"max_tokens\": 12, \"temperature\": 1, "
             "\"n\": %d, \"seed\": %d}",
             model ? "\"model\": \"" : "", model ? model : "", model ? "\", " : "", n, seed);
    json_t *root = ask_http("POST /v1/completions", body, &code);
    cr_assert_eq(code, 200, "%d: %s", code, text_of(json_object_get(root, "error"), "message"));
    return root;
}

static const char *choice_of(const json_t *root, size_t i)
{
    return text_of(json_array_get(json_object_get(root, "choices"), i), "text");
}

Test(adapter_ways, each_choice_has_the_adapter)
{
    enum { N_CHOICES = 3 };
    open_cluster(1, NULL);
    json_t *all = complete("a", N_CHOICES, 7);
    cr_expect_str_eq(text_of(all, "model"), "a");
    for (int i = 0; i < N_CHOICES; i++) {
        json_t *with = complete("a", 1, 7 + i), *without = complete(NULL, 1, 7 + i);
        cr_expect_str_eq(choice_of(all, (size_t)i), choice_of(with, 0), "choice %d", i);
        cr_expect_str_neq(choice_of(with, 0), choice_of(without, 0), "choice %d", i);
        json_decref(with);
        json_decref(without);
    }
    json_decref(all);
    close_cluster();
}

static void expect_refusal(const char *begin, const char *body, int code, const char *param,
                           const char *words)
{
    int is;
    json_t *root = ask_http(begin, body, &is);
    const json_t *error = json_object_get(root, "error");
    cr_expect_eq(is, code, "%s %s: %d", begin, body, is);
    cr_expect_str_eq(text_of(error, "param"), param, "%s", body);
    cr_expect(strstr(text_of(error, "message"), words), "no \"%s\" in \"%s\"", words,
              text_of(error, "message"));
    json_decref(root);
}

Test(adapter_ways, models_are_listed_and_others_refused)
{
    static const char POST[] = "POST /v1/completions";
    static const char *const UNKNOWN[] = {"c", "A", "a ", "a=b", "a/b", "\\u00e4"};
    char body[200];
    int code;
    open_cluster(0, NULL);
    json_t *root = ask_http("GET /v1/models", "", &code);
    const json_t *data = json_object_get(root, "data");
    cr_expect_eq(code, 200);
    cr_assert_eq(json_array_size(data), N_KINDS);
    for (size_t i = 1; i < N_KINDS; i++) {
        cr_expect_str_eq(text_of(json_array_get(data, i), "id"), KINDS[i]);
        cr_expect_str_eq(text_of(json_array_get(data, i), "parent"),
                         text_of(json_array_get(data, 0), "id"));
    }
    json_decref(root);
    root = ask_http("GET /v1/models/b", "", &code);
    cr_expect_eq(code, 200);
    cr_expect_str_eq(text_of(root, "id"), "b");
    json_decref(root);
    expect_refusal("GET /v1/models/c", "", 404, "model", "\"c\"");
    for (size_t i = 0; i < sizeof UNKNOWN / sizeof *UNKNOWN; i++) {
        snprintf(body, sizeof body, "{\"model\": \"%s\", \"prompt\": \"x\"}", UNKNOWN[i]);
        expect_refusal(POST, body, 404, "model", "is not served here");
    }
    expect_refusal(POST, "{\"model\": 7, \"prompt\": \"x\"}", 400, "model", "model");
    expect_refusal(POST, "{\"model\": [\"a\"], \"prompt\": \"x\"}", 400, "model", "model");
    close_cluster();
}
