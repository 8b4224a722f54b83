/* manifest: each file of the list has its digest, and no file that a model is read from is beside it. */
#include "cli/manifest.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOO                                                                                        \
    "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae" /* printf foo | sha256sum */
#define BAR "fcde2b2edba56bf408601fb721fe9b5c338d10ee429ea04fae5511b68fbf8fb9"

static char folder[] = "/tmp/kvferry-manifest.XXXXXX";
static char list[64];

static void write_text(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void make(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(list, sizeof list, "%s/SHA256SUMS", folder);
    write_text("config.json", "foo");
    write_text("model.safetensors", "bar");
}

static void remove_all(void)
{
    static const char *const NAMES[] = {"config.json", "model.safetensors", "SHA256SUMS",
                                        "more.json", "notes.txt"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
        unlink(path);
    }
    rmdir(folder);
}

TestSuite(manifest, .init = make, .fini = remove_all);

static void expect(const char *text, const char *sentence)
{
    struct error error = {0};
    uint32_t n_files = 0;
    write_text("SHA256SUMS", text);
    enum status status = manifest_check(list, folder, &n_files, &error);
    if (!sentence) {
        cr_assert_eq(status, STATUS_OK, "%s", error.text);
        cr_assert_eq(n_files, 2);
        return;
    }
    cr_assert_neq(status, STATUS_OK, "%s", text);
    cr_assert_not_null(strstr(error.text, sentence), "'%s' has no '%s'", error.text, sentence);
}

Test(manifest, files_with_their_digests_are_good)
{
    expect(FOO "  config.json\n" BAR " *model.safetensors\n", NULL);
    expect("\n" FOO "  config.json\n\n" BAR "  model.safetensors", NULL);
    write_text("notes.txt", "nobody reads it");
    expect(FOO "  config.json\n" BAR "  model.safetensors\n", NULL);
}

Test(manifest, a_file_that_differs_is_named)
{
    expect(BAR "  config.json\n" BAR "  model.safetensors\n", "config.json differs");
    write_text("model.safetensors", "baz");
    expect(FOO "  config.json\n" BAR "  model.safetensors\n", "model.safetensors differs");
}

Test(manifest, a_file_beside_the_list_is_named)
{
    expect(FOO "  config.json\n", "model.safetensors is not in");
    write_text("more.json", "{}");
    expect(FOO "  config.json\n" BAR "  model.safetensors\n", "more.json is not in");
}

Test(manifest, a_file_that_is_gone_or_elsewhere_is_named)
{
    expect(FOO "  config.json\n" BAR "  model.safetensors\n" BAR "  gone.json\n", "gone.json");
    expect(FOO "  ../config.json\n", "not a plain file name");
}

Test(manifest, a_line_that_is_none_is_named_by_its_number)
{
    expect(FOO "  config.json\n" BAR " model.safetensors\n", "SHA256SUMS:2: a line has 64 hex");
    expect("config.json\n", "SHA256SUMS:1: ");
    expect("x" FOO "  config.json\n", "SHA256SUMS:1: ");
    expect(FOO "  \n", "SHA256SUMS:1: ");
    expect("\n\n", "names no file");
    expect("", "names no file");
}

Test(manifest, a_list_that_is_not_there_is_named)
{
    struct error error = {0};
    uint32_t n_files;
    cr_assert_eq(manifest_check(list, folder, &n_files, &error), STATUS_NOT_FOUND);
    cr_assert_not_null(strstr(error.text, "SHA256SUMS"), "%s", error.text);
}
