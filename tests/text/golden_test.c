/* 25 templates with 19 conversations make what Transformers makes of them (tests/golden/chat), by the renderer and its process; what
 * Transformers refuses is refused. */
#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "text/template_renderer.h"
#include "text/text_build.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN      KVFERRY_SOURCE_DIR "/tests/golden/chat"
#define NOW_UNIX_S  1772892309 /* 2026-03-07 14:05:09, of make.py, in UTC */
#define N_TEMPLATES 25
#define N_REQUESTS  19

/* Of a folder that has nothing but the tokens. */
static void write_tokens(const json_t *root, char folder_out[64], char path_out[128])
{
    snprintf(folder_out, 64, "/tmp/chat_golden_XXXXXX");
    cr_assert_not_null(mkdtemp(folder_out));
    snprintf(path_out, 128, "%s/tokenizer_config.json", folder_out);
    cr_assert_eq(json_dump_file(json_object_get(root, "tokens"), path_out, 0), 0);
}

static void check(struct template_renderer *renderer, const char *template, const char *name,
                  const json_t *request, const json_t *wanted)
{
    struct error error = {""};
    struct render_prompt prompt = {0};
    char *json = json_dumps(request, 0);
    const struct render_request input = {.json = json,
                                         .n_bytes = strlen(json),
                                         .deadline_ns = clock_now_ns() + 60 * NS_PER_S,
                                         .now_unix_s = NOW_UNIX_S};
    enum status status = template_renderer_render(renderer, &input, &error, &prompt);
    const char *text = json_string_value(json_object_get(wanted, "text"));
    if (text)
        cr_expect(status == STATUS_OK && strcmp(prompt.text, text) == 0,
                  "%s, %s: %s %s\nwanted %s\ngot    %s", template, name, status_name(status),
                  error.text, text, status == STATUS_OK ? prompt.text : "");
    else
        cr_expect_eq(status, STATUS_INVALID_ARGUMENT, "%s, %s: %s: %s; Transformers refuses it: %s",
                     template, name, status_name(status),
                     status == STATUS_OK ? prompt.text : error.text,
                     json_string_value(json_object_get(wanted, "error")));
    free(prompt.text);
    free(json);
}

static unsigned check_template(const json_t *root, const char *folder, const char *template)
{
    struct error error = {""};
    struct metrics *metrics;
    struct template_renderer *renderer = NULL;
    char path[512];
    const char *name;
    json_t *wanted;
    unsigned n = 0;
    snprintf(path, sizeof path, GOLDEN "/templates/%s", template);
    cr_assert_eq(metrics_create("test", &metrics), STATUS_OK);
    const struct template_renderer_options options = {
        .folder = folder,
        .template_file = path,
        .program = TEXT_KEEPER,
        .template_bytes_max = 1 << 20,
        .n_workers = 1,
        .render_ms = 20000,
        .limits = {64 << 20, 10000, 10000000, 1 << 20, 1 << 20},
        .metrics = metrics,
    };
    enum status status = template_renderer_create(&options, &error, &renderer);
    cr_assert_eq(status, STATUS_OK, "%s: %s", template, error.text);
    json_object_foreach(json_object_get(json_object_get(root, "renderings"), template), name,
                        wanted)
    {
        check(renderer, template, name, json_object_get(json_object_get(root, "requests"), name),
              wanted);
        n++;
    }
    template_renderer_destroy(renderer);
    metrics_destroy(metrics);
    return n;
}

Test(golden, prompts_are_those_of_transformers)
{
    char folder[64], path[128];
    const char *template;
    json_t *of_template;
    unsigned n_templates = 0;
    json_error_t reason;
    json_t *root = json_load_file(GOLDEN "/renderings.json", 0, &reason);
    cr_assert_not_null(root, "%s", reason.text);
    if (!text_is_built())
        cr_skip_test("this build has no chat templates");
    setenv("TZ", "UTC", 1);
    write_tokens(root, folder, path);
    json_object_foreach(json_object_get(root, "renderings"), template, of_template)
    {
        cr_assert_eq(check_template(root, folder, template), N_REQUESTS);
        n_templates++;
    }
    cr_assert_eq(n_templates, N_TEMPLATES);
    unlink(path);
    rmdir(folder);
    json_decref(root);
}
