#include "tests/cli/support/bad_files.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];

const char *bad_files_path(void)
{
    return path;
}

static FILE *make(const char *name)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s/%s", path, name);
    FILE *file = fopen(whole, "w");
    cr_assert(file, "%s", whole);
    return file;
}

static void make_text(const char *name, const char *text)
{
    FILE *file = make(name);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
}

/* n_bytes of scales behind that header. */
static void make_tensors(const char *name, const char *header, const float *scales, size_t n_bytes)
{
    FILE *file = make(name);
    const uint64_t length = strlen(header);
    cr_assert_eq(fwrite(&length, sizeof length, 1, file), 1);
    cr_assert_eq(fwrite(header, length, 1, file), 1);
    cr_assert_eq(fwrite(scales, 1, n_bytes, file), n_bytes);
    cr_assert_eq(fclose(file), 0);
}

#define TENSOR(name, dtype, shape, from, to)                                                       \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to   \
    "]}"
#define PAIR                                                                                       \
    "{" TENSOR("k_largest", "F32", "2", "0", "8") "," TENSOR("v_largest", "F32", "2", "8", "16") "}"

/* Of a model of two layers. */
static void make_scales(void)
{
    static const float SCALES[] = {1, 2, 3, 4, 5, 6};
    static const struct {
        const char *name;
        float scale;
    } SPOILT[] = {{"nan", NAN},           {"zero", 0},     {"minus", -3},
                  {"infinite", INFINITY}, {"huge", 1e38f}, {"tiny", 1e-40f}};
    make_tensors("good", PAIR, SCALES, 16);
    make_tensors("cut", PAIR, SCALES, 15);
    make_tensors("long", PAIR, SCALES, 17);
    make_tensors("layers",
                 "{" TENSOR("k_largest", "F32", "3", "0", "12") "," TENSOR("v_largest", "F32", "3",
                                                                           "12", "24") "}",
                 SCALES, 24);
    make_tensors("twice",
                 "{" TENSOR("k_largest", "F32", "2", "0", "8") "," TENSOR("k_largest", "F32", "2",
                                                                          "8", "16") "}",
                 SCALES, 16);
    make_tensors("halves", "{" TENSOR("k_largest", "F16", "2", "0", "4") "}", SCALES, 4);
    make_tensors("square", "{" TENSOR("k_largest", "F32", "2,1", "0", "8") "}", SCALES, 8);
    make_tensors("no_v", "{" TENSOR("k_largest", "F32", "2", "0", "8") "}", SCALES, 8);
    make_tensors("no_k", "{" TENSOR("v_largest", "F32", "2", "0", "8") "}", SCALES, 8);
    for (size_t i = 0; i < sizeof SPOILT / sizeof *SPOILT; i++) {
        const float spoilt[] = {1, 2, 3, SPOILT[i].scale};
        make_tensors(SPOILT[i].name, PAIR, spoilt, sizeof spoilt);
    }
    make_text("text", "k_largest: 1, 2; v_largest: 3, 4\n");
    make_text("far", "\xff\xff\xff\x7f{}");
    make_text("empty", "");
    make_text("file", "x");
}

static void make_other(void)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s/folder", path);
    cr_assert_eq(mkdir(whole, 0700), 0);
    snprintf(whole, sizeof whole, "%s/taken", path);
    cr_assert_eq(mkdir(whole, 0700), 0);
    make_text("taken/kv-blocks", "");
    snprintf(whole, sizeof whole, "%s/fifo", path);
    cr_assert_eq(mkfifo(whole, 0600), 0);
    snprintf(whole, sizeof whole, "%s/link", path);
    cr_assert_eq(symlink("nowhere", whole), 0);
    snprintf(whole, sizeof whole, "%s/large", path);
    make_text("large", "x");
    cr_assert_eq(truncate(whole, (1 << 20) + 1), 0);
}

static void make_yaml(void)
{
    make_text("twice.yaml", "kv_dtype: f32\nkv-dtype: bf16\n");
    make_text("list.yaml", "kv_disk: [a, b]\n");
    make_text("nested.yaml", "attention_window:\n  0: 16\n");
    make_text("slip.yaml", "kv_disc: /tmp\n");
    make_text("word.yaml", "kv_scrub: maybe\n");
    make_text("null.yaml", "sink_tokens:\n");
    make_text("zero.yaml", "kv_scales: \"a\\0b\"\n");
    make_text("pair.yaml", "kv_disk_size: 1M\nkv_disk_size: 2M\n");
    make_text("number.yaml", "snapshot_tokens: 1e3\n");
    make_text("open.yaml", "kv_manager: \"paged\n");
}

void bad_files_make(void)
{
    snprintf(path, sizeof path, "/tmp/bad_files.XXXXXX");
    cr_assert_not_null(mkdtemp(path));
    make_scales();
    make_other();
    make_yaml();
}

void bad_files_remove(void)
{
    static const char *const NAMES[] = {
        "good",        "cut",       "long",           "layers",    "twice",      "halves",
        "square",      "no_v",      "no_k",           "nan",       "zero",       "minus",
        "infinite",    "huge",      "tiny",           "text",      "far",        "empty",
        "file",        "fifo",      "link",           "large",     "twice.yaml", "list.yaml",
        "nested.yaml", "slip.yaml", "word.yaml",      "null.yaml", "zero.yaml",  "pair.yaml",
        "number.yaml", "open.yaml", "taken/kv-blocks"};
    char whole[128];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        snprintf(whole, sizeof whole, "%s/%s", path, NAMES[i]);
        cr_expect_eq(unlink(whole), 0, "%s", whole);
    }
    snprintf(whole, sizeof whole, "%s/taken", path);
    cr_expect_eq(rmdir(whole), 0, "a check has left files in %s", whole);
    snprintf(whole, sizeof whole, "%s/folder", path);
    cr_expect_eq(rmdir(whole), 0, "a check has left files in %s", whole);
    cr_expect_eq(rmdir(path), 0, "a check has left files in %s", path);
}
