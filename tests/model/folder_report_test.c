/* folder_report: every key of a folder's files is under one verdict; every file is read or named. */
#include "model/folder_report.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static json_t *make(const struct broken_folder *folder)
{
    struct error error = {""};
    json_t *report = NULL;
    cr_assert_eq(folder_report_make(folder->path, &report, &error), STATUS_OK, "%s", error.text);
    return report;
}

/* Is key under that verdict of that file? With a value (or a reason) that has part in it. */
static bool has(const json_t *report, const char *file, const char *verdict, const char *key)
{
    const json_t *group = json_object_get(json_object_get(json_object_get(report, "files"), file),
                                          verdict);
    const char *why;
    json_t *names, *name;
    size_t i;
    if (json_is_array(group)) {
        json_array_foreach((json_t *)(uintptr_t)group, i,
                           name) if (strcmp(json_string_value(name), key) == 0) return true;
        return false;
    }
    if (strcmp(verdict, "ignored") != 0)
        return json_object_get(group, key);
    json_object_foreach((json_t *)(uintptr_t)group, why, names) json_array_foreach(
        names, i, name) if (strcmp(json_string_value(name), key) == 0) return true;
    return false;
}

/* As people see it; the caller frees it. */
static char *printed(const json_t *report)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_not_null(out);
    folder_report_print(report, out);
    fclose(out);
    return text;
}

Test(folder_report, every_key_is_under_its_verdict)
{
    struct broken_folder folder;
    broken_folder_make(&folder, GOLDEN_MODELS "/llama_t4", CONFIG_SET,
                       "{\"attention_dropout\": 0.1, \"never_heard_of\": 3, \"num_experts\": 8, "
                       "\"temperature\": 0.5, \"num_beams\": 4, \"logit_scale\": 1.0}");
    json_t *report = make(&folder);
    cr_expect(has(report, "config.json", "used", "hidden_size"));
    cr_expect(has(report, "config.json", "used", "temperature"));
    cr_expect(has(report, "config.json", "ignored", "attention_dropout"));
    cr_expect(has(report, "config.json", "ignored", "logit_scale"));
    cr_expect(has(report, "config.json", "refused", "num_experts"));
    cr_expect(has(report, "config.json", "not_done", "num_beams"));
    cr_expect(has(report, "config.json", "unknown", "never_heard_of"));
    cr_expect(
        json_is_null(json_object_get(json_object_get(report, "files"), "generation_config.json")));
    json_decref(report);

    broken_folder_edit(&folder, FILE_TEXT, "generation_config.json={\"top_k\": 5, \"min_p\": 0}");
    broken_folder_edit(&folder, FILE_TEXT,
                       "tokenizer_config.json={\"bos_token\": \"a\", \"model_max_length\": 1e30, "
                       "\"split_special_tokens\": true, \"image_token\": \"b\", \"vocab_size\": 9, "
                       "\"odd\": 1}");
    broken_folder_edit(&folder, FILE_TEXT, "special_tokens_map.json={\"eos_token\": \"a\"");
    report = make(&folder);
    cr_expect(has(report, "config.json", "ignored", "num_beams"));
    cr_expect(has(report, "generation_config.json", "used", "top_k"));
    cr_expect(has(report, "tokenizer_config.json", "used", "bos_token"));
    cr_expect(has(report, "tokenizer_config.json", "ignored", "model_max_length"));
    cr_expect(has(report, "tokenizer_config.json", "ignored", "image_token"));
    cr_expect(has(report, "tokenizer_config.json", "ignored", "vocab_size"));
    cr_expect(has(report, "tokenizer_config.json", "refused", "split_special_tokens"));
    cr_expect(has(report, "tokenizer_config.json", "unknown", "odd"));
    const char *broken = json_string_value(
        json_object_get(json_object_get(report, "files"), "special_tokens_map.json"));
    cr_expect(broken && strstr(broken, "special_tokens_map.json is not JSON"));
    json_decref(report);
    broken_folder_remove(&folder);
}

Test(folder_report, files_that_nobody_reads_are_named_and_lines_keep_short)
{
    struct broken_folder folder;
    broken_folder_make(&folder, GOLDEN_MODELS "/llama_t4", FILE_TEXT, "README.md=# a");
    broken_folder_edit(&folder, FILE_TEXT, "pytorch_model.bin.index.json={}");
    json_t *report = make(&folder);
    char *others = json_dumps(json_object_get(report, "other_files"), JSON_COMPACT);
    cr_expect_str_eq(others, "[\"README.md\",\"pytorch_model.bin.index.json\"]");
    free(others);

    char *text = printed(report);
    cr_expect(strstr(text, "config.json\n  used      architectures [\"LlamaForCausalLM\"], "), "%s",
              text);
    cr_expect(strstr(text, "generation_config.json: not there\n"), "%s", text);
    cr_expect(strstr(text, "  ignored   README.md, pytorch_model.bin.index.json\n"), "%s", text);
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        cr_expect_leq(strcspn(line, "\n"), 101, "%s", line);
    free(text);
    json_decref(report);
    broken_folder_remove(&folder);
}

Test(folder_report, names_of_any_bytes_are_shown_without_their_control_characters)
{
    struct broken_folder folder;
    broken_folder_make(&folder, GOLDEN_MODELS "/llama_t4", CONFIG_SET,
                       "{\"\\u001b[31m\\n\": 1, \"long\": 2}");
    broken_folder_edit(&folder, FILE_TEXT, "a\xff\x1b.txt=");
    json_t *report = make(&folder);
    char *text = printed(report);
    cr_expect(strstr(text, "?[31m?, long"), "%s", text);
    cr_expect(strstr(text, "a??.txt"), "%s", text);
    cr_expect_null(strchr(text, '\x1b'), "%s", text);
    free(text);
    json_decref(report);
    broken_folder_remove(&folder);
}

Test(folder_report, a_folder_that_is_none_is_named)
{
    struct error error = {""};
    json_t *report = NULL;
    cr_assert_eq(folder_report_make("/nowhere", &report, &error), STATUS_NOT_FOUND);
    cr_assert(strstr(error.text, "/nowhere"), "%s", error.text);
}
