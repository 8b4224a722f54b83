/*
 * chat_pipe - renders what standard input asks for, with the product's renderer, for scripts that compare or attack it:
 * chat_pipe KEEPER FOLDER. FOLDER has a tokenizer_config.json.
 *
 *     T PATH            takes that file as the template; nothing is answered
 *     R n, n bytes      renders the request, JSON; answers "STATUS n us", n bytes: the prompt, or the sentence
 */
#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "text/template_renderer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 2026-03-07 14:05:09 UTC */
#define NOW_UNIX_S 1772892309

struct pipe_state {
    const char *keeper, *folder;
    struct template_renderer *renderer;
    struct metrics *metrics;
    enum status made;
    struct error error;
};

static void take(struct pipe_state *state, const char *path)
{
    const struct template_renderer_options options = {
        .folder = state->folder,
        .template_file = path,
        .program = state->keeper,
        .template_bytes_max = 4 << 20,
        .n_workers = 1,
        .render_ms = 3000,
        .limits = {.memory_bytes = 256 << 20,
                   .cpu_ms = 1000,
                   .fuel = 20000000,
                   .request_bytes_max = 8 << 20,
                   .prompt_bytes_max = 16 << 20},
    };
    struct template_renderer_options with = options;
    template_renderer_destroy(state->renderer);
    metrics_destroy(state->metrics);
    state->renderer = NULL;
    state->metrics = NULL;
    if (metrics_create("pipe", &state->metrics) != STATUS_OK)
        exit(EXIT_FAILURE);
    with.metrics = state->metrics;
    state->made = template_renderer_create(&with, &state->error, &state->renderer);
}

static void answer(struct pipe_state *state, const char *json, size_t n_bytes)
{
    struct render_prompt prompt = {0};
    uint64_t begun_ns = clock_now_ns();
    const struct render_request request = {.json = json,
                                           .n_bytes = n_bytes,
                                           .deadline_ns = begun_ns + 10 * NS_PER_S,
                                           .now_unix_s = NOW_UNIX_S};
    enum status status = state->made;
    if (status == STATUS_OK)
        status = template_renderer_render(state->renderer, &request, &state->error, &prompt);
    uint64_t us = (clock_now_ns() - begun_ns) / NS_PER_US;
    const char *text = status == STATUS_OK ? prompt.text : state->error.text;
    size_t text_bytes = status == STATUS_OK ? prompt.n_bytes : strlen(text);
    printf("%s %zu %" PRIu64 "\n", status_name(status), text_bytes, us);
    fwrite(text, 1, text_bytes, stdout);
    fflush(stdout);
    free(prompt.text);
}

int main(int argc, char **argv)
{
    struct pipe_state state = {.made = STATUS_NOT_FOUND};
    char line[4096];
    if (argc != 3)
        return 2;
    state.keeper = argv[1];
    state.folder = argv[2];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == 'T') {
            take(&state, line + 2);
        } else if (line[0] == 'R') {
            size_t n_bytes = strtoull(line + 2, NULL, 10);
            char *json = malloc(n_bytes + 1);
            if (!json || fread(json, 1, n_bytes, stdin) != n_bytes)
                return EXIT_FAILURE;
            answer(&state, json, n_bytes);
            free(json);
        }
    }
    template_renderer_destroy(state.renderer);
    metrics_destroy(state.metrics);
    return EXIT_SUCCESS;
}
