/* kv_files: what was dropped or cleared does not come back, whatever the disk does. */
#include "tests/kvtier/support/tier_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static struct tier_folder folder;

static void make(void)
{
    tier_folder_make(&folder);
}

static void clean(void)
{
    tier_folder_remove(&folder);
}

TestSuite(kv_files_vanish, .init = make, .fini = clean);

Test(kv_files_vanish, an_origin_and_all_vanish_from_the_disk)
{
    struct kv_files *files = tier_open(&folder, 16);
    tier_write(files, 1, 0, 0);
    tier_write(files, 2, 1, 50);
    tier_write(files, 3, 2, 50);
    tier_write(files, 4, 1, 0);
    tier_write(files, 5, 4, 0);
    KV_FILES_OPS.drop(files, 50);
    cr_assert(tier_has(files, 1) && !tier_has(files, 2) && !tier_has(files, 3) &&
              tier_has(files, 4));
    cr_assert_eq(tier_folder_count(&folder), 3);
    kv_files_close(files);
    files = tier_open(&folder, 16);
    cr_assert(tier_has(files, 1) && !tier_has(files, 2) && tier_has(files, 5));
    KV_FILES_OPS.clear(files);
    cr_assert_eq(tier_folder_count(&folder), 0);
    kv_files_close(files);
}

/* A file that no name leads to any more is put back, as a crash of the system does. */
static void keep_aside(char file_out[256], char aside_out[128])
{
    tier_folder_only(&folder, file_out);
    snprintf(aside_out, 128, "%s/aside", folder.path);
    cr_assert_eq(link(file_out, aside_out), 0);
}

Test(kv_files_vanish, a_file_that_was_cleared_is_wrong_if_it_comes_back)
{
    char file[256], aside[128];
    struct kv_files *files = tier_open(&folder, 16);
    const struct prefix_key before = kv_files_secret(files);
    tier_write(files, 1, 0, 0);
    keep_aside(file, aside);
    KV_FILES_OPS.clear(files);
    cr_assert_eq(tier_folder_count(&folder), 0);
    tier_write(files, 2, 0, 0);
    kv_files_close(files);
    cr_assert_eq(rename(aside, file), 0);
    files = tier_open(&folder, 16);
    cr_assert(!tier_has(files, 1) && tier_has(files, 2) && tier_read(files, 2));
    cr_assert_eq(kv_files_found(files).n_foreign, 1);
    const struct prefix_key after = kv_files_secret(files);
    cr_assert_arr_eq(&before, &after, sizeof before, "what is kept from now on is found later");
    kv_files_close(files);
}

Test(kv_files_vanish, a_drop_that_cannot_remove_a_file_clears_and_is_counted)
{
    char file[256], aside[128];
    struct kv_files *files = tier_open(&folder, 16);
    tier_write(files, 1, 0, 50);
    keep_aside(file, aside);
    tier_write(files, 2, 0, 0);
    cr_assert_eq(unlink(file), 0);
    cr_assert_eq(mkdir(file, 0700), 0); /* no unlink removes it */
    KV_FILES_OPS.drop(files, 50);
    cr_assert_eq(tier_counts(files).faults[STORE_IO], 1);
    cr_assert(!tier_has(files, 1) && !tier_has(files, 2));
    kv_files_close(files);
    cr_assert_eq(rmdir(file), 0);
    cr_assert_eq(rename(aside, file), 0);
    files = tier_open(&folder, 16);
    cr_assert(!tier_has(files, 1) && !tier_has(files, 2));
    kv_files_close(files);
}

Test(kv_files_vanish, while_no_key_can_be_written_nothing_is_kept_after_a_clear)
{
    char file[256], aside[128], key[128];
    snprintf(key, sizeof key, "%s/key-tmp", folder.blocks);
    for (int how = 0; how < 2; how++) {
        struct kv_files *files = tier_open(&folder, 16);
        tier_write(files, 1, 0, 0);
        keep_aside(file, aside);
        cr_assert_eq(mkdir(key, 0700), 0); /* nobody can write to it */
        KV_FILES_OPS.clear(files);
        cr_assert_eq(tier_counts(files).faults[STORE_IO], 1);
        cr_assert_eq(tier_try_write(files, 2), STATUS_NOT_FOUND);
        cr_assert_eq(tier_counts(files).faults[STORE_IO], 2);
        cr_assert_eq(rmdir(key), 0);
        if (how == 0)
            cr_assert_eq(tier_try_write(files, 2), STATUS_OK);
        kv_files_close(files);
        cr_assert_eq(rename(aside, file), 0);
        files = tier_open(&folder, 16);
        cr_assert(!tier_has(files, 1), "nor after a restart");
        cr_assert_eq(tier_has(files, 2), how == 0);
        KV_FILES_OPS.clear(files);
        kv_files_close(files);
    }
}
