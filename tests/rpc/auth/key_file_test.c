/* key_file, cluster_key: one or two lines of 32 bytes in base64 and nothing else; a file that is there is
 * not replaced; what changes is read again, and what is broken is not taken. */
#include "rpc/auth/cluster_key.h"
#include "tests/base/support/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ONES  "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
#define TWOS  "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
#define TREES "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM="

static enum status parse(const char *text, struct key_set *keys_out)
{
    struct error error;
    return key_file_parse(text, strlen(text), "test", keys_out, &error);
}

Test(key_file, one_key_or_two_are_taken)
{
    struct key_set keys;
    cr_assert_eq(parse(ONES, &keys), STATUS_OK);
    cr_assert_eq(keys.n, 1);
    cr_assert_eq(keys.keys[0][31], 1);
    cr_assert_eq(parse(ONES "\n", &keys), STATUS_OK);
    cr_assert_eq(keys.n, 1);
    cr_assert_eq(parse(TWOS "\n" ONES "\n", &keys), STATUS_OK);
    cr_assert_eq(keys.n, 2);
    cr_assert_eq(keys.keys[0][0], 2);
    cr_assert_eq(keys.keys[1][0], 1);
}

Test(key_file, nothing_else_is)
{
    static const char *const WRONG[] = {
        "",
        "\n",
        " " ONES,
        ONES " ",
        ONES "\n\n",
        ONES "\r\n",
        ONES "\n" ONES,
        ONES "\n" TWOS "\n" TREES,
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQF=", /* bits that no byte has */
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB", /* 33 bytes */
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==", /* 31 */
        "AQEBAQEBAQEBAQEB-QEBAQEBAQEBAQEBAQEBAQEBAQE=",
        "0101010101010101010101010101010101010101010101010101010101010101",
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        struct key_set keys;
        cr_expect_eq(parse(WRONG[i], &keys), STATUS_CORRUPT, "%s", WRONG[i]);
    }
    struct key_set keys;
    cr_expect_eq(key_file_parse(ONES, 43, "cut", &keys, NULL), STATUS_CORRUPT);
}

static char folder[64];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/kvferry-key-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    folder_remove(folder);
}

static void write_text(const char *path, const char *text)
{
    char temporary[96];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    FILE *file = fopen(temporary, "w");
    fputs(text, file);
    fclose(file);
    cr_assert_eq(rename(temporary, path), 0);
}

static const char *path_of(const char *name)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

Test(key_file, what_is_made_is_read_back_and_never_replaced, .init = make_folder,
     .fini = remove_folder)
{
    struct key_set drawn, other, read;
    struct error error;
    struct stat stat_out;
    const char *path = path_of("key");
    umask(0);
    cr_assert_eq(key_set_draw(&drawn, &error), STATUS_OK);
    cr_assert_eq(key_set_draw(&other, &error), STATUS_OK);
    cr_assert_neq(memcmp(drawn.keys[0], other.keys[0], CLUSTER_KEY_BYTES), 0);
    cr_assert_eq(key_file_make(path, &drawn, &error), STATUS_OK);
    cr_assert_eq(key_file_make(path, &other, &error), STATUS_DUPLICATE_REQUEST);
    cr_assert(strstr(error.text, "exists already"));
    cr_assert_eq(key_file_read(path, &read, &error), STATUS_OK);
    cr_assert_eq(memcmp(&read, &drawn, sizeof read), 0);
    cr_assert_eq(stat(path, &stat_out), 0);
    cr_assert_eq(stat_out.st_mode & 07777, 0600);
    cr_assert_eq(symlink("/nowhere/at/all", path_of("link")), 0);
    cr_assert_eq(key_file_make(path_of("link"), &other, &error), STATUS_DUPLICATE_REQUEST);
    cr_assert_eq(key_file_make(path_of("none/key"), &other, &error), STATUS_IO_FAILED);
}

static uint8_t first_byte(struct cluster_key *key, uint32_t *n_out)
{
    struct key_set keys;
    cluster_key_get(key, &keys);
    *n_out = keys.n;
    return keys.keys[0][0];
}

Test(cluster_key, a_changed_file_is_read_again_and_a_broken_one_is_not_taken, .init = make_folder,
     .fini = remove_folder)
{
    struct cluster_key *key;
    struct error error;
    uint32_t n;
    const char *path = path_of("key");
    write_text(path, ONES "\n");
    cr_assert_eq(cluster_key_open(path, &error, &key), STATUS_OK);
    cr_assert_not(cluster_key_look(key));
    cr_assert_eq(first_byte(key, &n), 1);

    write_text(path, TWOS "\n" ONES "\n");
    cr_assert(cluster_key_look(key));
    cr_assert_eq(first_byte(key, &n), 2);
    cr_assert_eq(n, 2);

    write_text(path, "half a k");
    cr_assert_not(cluster_key_look(key));
    unlink(path);
    cr_assert_not(cluster_key_look(key));
    cr_assert_eq(first_byte(key, &n), 2);

    write_text(path, TREES);
    cr_assert(cluster_key_look(key));
    cr_assert_eq(first_byte(key, &n), 3);
    cr_assert_eq(n, 1);
    cluster_key_destroy(key);
}

Test(cluster_key, a_file_that_is_no_key_opens_nothing, .init = make_folder, .fini = remove_folder)
{
    struct cluster_key *key;
    struct error error;
    cr_assert_eq(cluster_key_open(path_of("none"), &error, &key), STATUS_NOT_FOUND);
    write_text(path_of("bad"), "secret\n");
    cr_assert_eq(cluster_key_open(path_of("bad"), &error, &key), STATUS_CORRUPT);
    cr_assert_null(strstr(error.text, "secret"));
}
