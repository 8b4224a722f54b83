/* chat_template: which of the places counts, which names, which variables; what is wrong in them is named. */
#include "text/chat_template.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static struct error error;

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/chat_template_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk)
{
    (void)about, (void)kind, (void)walk;
    return remove(path);
}

static void end(void)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TestSuite(chat_template, .init = begin, .fini = end);

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (strchr(name, '/')) {
        *strrchr(path, '/') = '\0';
        mkdir(path, 0700);
        path[strlen(path)] = '/';
    }
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    fputs(text, file);
    fclose(file);
}

static struct chat_template *get(const char *file)
{
    struct chat_template *template = NULL;
    enum status status = chat_template_read(folder, file, 1 << 16, &error, &template);
    cr_assert_eq(status, STATUS_OK, "%s: %s", status_name(status), error.text);
    return template;
}

static const char *text_of(const struct chat_template *template, const char *name)
{
    for (uint32_t i = 0; i < template->n_sources; i++)
        if (strcmp(template->sources[i].name, name) == 0)
            return template->sources[i].text;
    return NULL;
}

static void check_fails(enum status wanted, const char *part)
{
    struct chat_template *template = NULL;
    enum status status = chat_template_read(folder, NULL, 100, &error, &template);
    cr_assert_eq(status, wanted, "%s: %s", status_name(status), error.text);
    cr_assert(strstr(error.text, part), "%s lacks %s", error.text, part);
}

Test(chat_template, the_files_count_before_the_config_and_that_before_the_processors)
{
    put("chat_template.json", "{\"chat_template\": \"processor\"}");
    struct chat_template *template = get(NULL);
    cr_assert_str_eq(text_of(template, "default"), "processor");
    chat_template_destroy(template);

    put("tokenizer_config.json", "{\"chat_template\": \"config\"}");
    template = get(NULL);
    cr_assert_str_eq(text_of(template, "default"), "config");
    chat_template_destroy(template);

    put("chat_template.jinja", "file\n");
    put("additional_chat_templates/tool_use.jinja", "tools");
    put("additional_chat_templates/other.jinja", "other");
    template = get(NULL);
    cr_assert_str_eq(text_of(template, "default"), "file\n");
    cr_assert_str_eq(text_of(template, "tool_use"), "tools");
    cr_assert_null(text_of(template, "rag"));
    cr_assert_eq(template->n_sources, 2);
    chat_template_destroy(template);

    char operators[128];
    put("mine", "operator");
    snprintf(operators, sizeof operators, "%s/mine", folder);
    template = get(operators);
    cr_assert_str_eq(text_of(template, "default"), "operator");
    cr_assert_eq(template->n_sources, 1);
    chat_template_destroy(template);
}

Test(chat_template, a_list_gives_templates_by_name)
{
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"d\"},"
        "{\"name\": \"rag\", \"template\": \"r\"}, {\"name\": \"x\", \"template\": \"x\"},"
        "{\"name\": \"tool_use\", \"template\": \"t\"}]}");
    struct chat_template *template = get(NULL);
    cr_assert_eq(template->n_sources, 3);
    cr_assert_str_eq(text_of(template, "default"), "d");
    cr_assert_str_eq(text_of(template, "tool_use"), "t");
    cr_assert_str_eq(text_of(template, "rag"), "r");
    chat_template_destroy(template);
}

Test(chat_template, variables_are_named_tokens_as_text_or_object)
{
    put("chat_template.jinja", "x");
    put("tokenizer_config.json",
        "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\", \"lstrip\": false},"
        "\"pad_token\": null, \"image_token\": \"<image>\", \"added_tokens_decoder\": {}}");
    put("special_tokens_map.json", "{\"bos_token\": \"<other>\"}");
    struct chat_template *template = get(NULL);
    cr_assert_str_eq(template->tokens, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
    chat_template_destroy(template);

    put("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
    template = get(NULL);
    cr_assert_str_eq(template->tokens, "{\"bos_token\":\"<other>\",\"eos_token\":\"</s>\"}");
    chat_template_destroy(template);
}

Test(chat_template, what_is_missing_or_wrong_is_named)
{
    check_fails(STATUS_NO_CHAT_TEMPLATE, "has no chat template");
    put("tokenizer_config.json", "{\"chat_template\": 5}");
    check_fails(STATUS_CORRUPT, "tokenizer_config.json: chat_template is neither");
    put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\"}]}");
    check_fails(STATUS_CORRUPT, "chat_template[0] has no name and template");
    put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"x\"}]}");
    check_fails(STATUS_NO_CHAT_TEMPLATE, "none is called default");
    put("tokenizer_config.json", "[]");
    check_fails(STATUS_CORRUPT, "is no object");
    put("tokenizer_config.json", "{");
    check_fails(STATUS_CORRUPT, "tokenizer_config.json");
    put("tokenizer_config.json", "{}");
    put("chat_template.jinja", "\xff");
    check_fails(STATUS_CORRUPT, "chat_template.jinja is not UTF-8 at byte 0");
    char longer[200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    put("chat_template.jinja", longer);
    check_fails(STATUS_CORRUPT, "chat_template.jinja");
}
