/* kv_files: a block comes back bit for bit or is missing, whatever happened to its file; the size holds, over restarts, too; and
 * one process at a time has the folder. */
#include "base/random.h"
#include "tests/kvtier/support/tier_folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

TestSuite(kv_files, .init = make, .fini = clean);

/* ---- what is kept ---- */

Test(kv_files, a_block_comes_back_bit_for_bit_with_its_origin_after_a_restart_too)
{
    struct kv_files *files = tier_open(&folder, 8);
    tier_write(files, 1, 0, 0);
    tier_write(files, 2, 1, 0xabcdef);
    const struct prefix_key secret = kv_files_secret(files);
    cr_assert(tier_read(files, 1));
    kv_files_close(files);

    files = tier_open(&folder, 8);
    const struct prefix_key again = kv_files_secret(files);
    cr_assert_arr_eq(&secret, &again, sizeof secret);
    cr_assert_eq(kv_files_found(files).n_kept, 2);
    uint8_t bytes[4096];
    uint64_t origin = 1;
    const struct stored_block block = tier_block(2, 0, 0);
    cr_assert_eq(KV_FILES_OPS.read(files, &block.key, bytes, &origin), STATUS_OK);
    cr_assert(tier_is_filled(2, bytes));
    cr_assert_eq(origin, 0xabcdef);
    cr_assert(!tier_has(files, 3) && !tier_read(files, 3));
    cr_assert_eq(tier_counts(files).n_read, 1, "by this life");
    kv_files_close(files);
}

Test(kv_files, nobody_else_may_enter_the_folder_or_read_the_key)
{
    struct stat stat_of;
    char path[128];
    chmod(folder.path, 0777);
    struct kv_files *files = tier_open(&folder, 8);
    tier_write(files, 1, 0, 0);
    cr_assert_eq(stat(folder.blocks, &stat_of), 0);
    cr_assert_eq(stat_of.st_mode & 07777, 0700);
    snprintf(path, sizeof path, "%s/key", folder.blocks);
    cr_assert_eq(stat(path, &stat_of), 0);
    cr_assert_eq(stat_of.st_mode & 07777, 0600);
    char file[256];
    tier_folder_only(&folder, file);
    cr_assert_eq(stat(file, &stat_of), 0);
    cr_assert_eq(stat_of.st_mode & 07777, 0600);
    kv_files_close(files);
    chmod(folder.blocks, 0755); /* somebody was careless */
    files = tier_open(&folder, 8);
    cr_assert_eq(stat(folder.blocks, &stat_of), 0);
    cr_assert_eq(stat_of.st_mode & 07777, 0700);
    kv_files_close(files);
}

Test(kv_files, what_was_used_longest_ago_goes_first)
{
    struct kv_files *files = tier_open(&folder, 3);
    for (uint64_t number = 1; number <= 3; number++)
        tier_write(files, number, 0, 0);
    cr_assert(tier_read(files, 1));
    tier_write(files, 4, 0, 0);
    cr_assert(tier_has(files, 1) && !tier_has(files, 2) && tier_has(files, 3) &&
              tier_has(files, 4));
    cr_assert_eq(tier_folder_count(&folder), 3);
    cr_assert_eq(tier_counts(files).n_removed, 1);
    cr_assert_eq(tier_counts(files).bytes, 3 * TIER_FILE_BYTES);
    kv_files_close(files);
}

Test(kv_files, the_order_of_use_and_a_smaller_size_hold_after_a_restart)
{
    struct kv_files *files = tier_open(&folder, 5);
    for (uint64_t number = 1; number <= 5; number++)
        tier_write(files, number, 0, 0);
    cr_assert(tier_read(files, 2));
    cr_assert(tier_read(files, 1));
    kv_files_close(files);

    files = tier_open(&folder, 3); /* 3 and 4 were used longest ago */
    cr_assert_eq(kv_files_found(files).n_over, 2);
    cr_assert(tier_has(files, 5) && tier_has(files, 2) && tier_has(files, 1));
    cr_assert_eq(tier_folder_count(&folder), 3);
    tier_write(files, 6, 0, 0);
    cr_assert(!tier_has(files, 5));
    tier_write(files, 7, 0, 0);
    cr_assert(!tier_has(files, 2) && tier_has(files, 1));
    kv_files_close(files);
}

/* ---- files that are wrong ---- */

Test(kv_files, a_wrong_bit_anywhere_makes_the_block_missing_and_deletes_the_file)
{
    struct kv_files *files = tier_open(&folder, 8);
    const size_t n_bytes = 128 + tier_block_bytes();
    struct random random;
    char path[256];
    random_init(&random, 3);
    for (size_t at = 0; at < n_bytes; at++) {
        tier_write(files, 1, 0, 9);
        tier_folder_only(&folder, path);
        const int descriptor = open(path, O_RDWR);
        uint8_t byte;
        cr_assert_eq(pread(descriptor, &byte, 1, (off_t)at), 1);
        byte ^= (uint8_t)(1u << random_below(&random, 8));
        cr_assert_eq(pwrite(descriptor, &byte, 1, (off_t)at), 1);
        close(descriptor);
        cr_assert(!tier_read(files, 1), "byte %zu", at);
        cr_assert_eq(tier_folder_count(&folder), 0);
        cr_assert(!tier_has(files, 1));
    }
    const struct store_counts now = tier_counts(files);
    cr_assert_eq(now.faults[STORE_CORRUPT] + now.faults[STORE_FOREIGN], n_bytes);
    cr_assert_gt(now.faults[STORE_CORRUPT], n_bytes - 32);
    kv_files_close(files);
}

Test(kv_files, a_file_of_another_length_is_missing_at_once_and_after_a_restart)
{
    const off_t whole = (off_t)(128 + tier_block_bytes());
    const off_t lengths[] = {0, 1, 127, 128, whole - 1, whole + 1, 2 * whole};
    char path[256];
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct kv_files *files = tier_open(&folder, 8);
        tier_write(files, 1, 0, 0);
        tier_folder_only(&folder, path);
        cr_assert_eq(truncate(path, lengths[i]), 0);
        cr_assert(!tier_read(files, 1));
        cr_assert_eq(tier_counts(files).faults[STORE_CORRUPT], 1);
        tier_write(files, 1, 0, 0);
        kv_files_close(files);
        tier_folder_only(&folder, path);
        cr_assert_eq(truncate(path, lengths[i]), 0);
        files = tier_open(&folder, 8);
        cr_assert_eq(kv_files_found(files).n_broken, 1);
        cr_assert_eq(tier_folder_count(&folder), 0);
        kv_files_close(files);
    }
}

Test(kv_files, a_file_under_the_name_of_another_block_is_missing)
{
    struct kv_files *files = tier_open(&folder, 8);
    char first[256], second[256];
    tier_write(files, 1, 0, 0);
    tier_folder_only(&folder, first);
    cr_assert_eq(KV_FILES_OPS.has(files, &(struct stored_key){.hash = {1, ~1ull}}), true);
    const struct stored_block other = tier_block(2, 0, 0);
    snprintf(second, sizeof second, "%s", first);
    char *name = strrchr(second, '/') + 1;
    char digits[40];
    snprintf(digits, sizeof digits, "%016llx%016llx", (unsigned long long)other.key.hash.hi,
             (unsigned long long)other.key.hash.lo);
    memcpy(name, digits, 32);
    kv_files_close(files);
    cr_assert_eq(rename(first, second), 0);
    files = tier_open(&folder, 8);
    cr_assert(tier_has(files, 2), "by its name");
    cr_assert(!tier_read(files, 2));
    cr_assert_eq(tier_folder_count(&folder), 0);
    kv_files_close(files);
}

Test(kv_files, what_is_no_file_a_link_or_gone_is_missing)
{
    struct kv_files *files = tier_open(&folder, 8);
    char path[256], away[256];
    tier_write(files, 1, 0, 0);
    tier_folder_only(&folder, path);
    cr_assert_eq(unlink(path), 0);
    cr_assert(!tier_read(files, 1));
    cr_assert_eq(tier_counts(files).faults[STORE_MISSING], 1);

    tier_write(files, 1, 0, 0);
    snprintf(away, sizeof away, "%s/away", folder.path);
    cr_assert_eq(rename(path, away), 0);
    cr_assert_eq(symlink(away, path), 0);
    cr_assert(!tier_read(files, 1), "a link may lead anywhere");
    cr_assert_eq(access(away, F_OK), 0);

    tier_write(files, 1, 0, 0);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert(!tier_read(files, 1), "it does not wait for a writer");

    tier_write(files, 2, 0, 0);
    tier_folder_only(&folder, path);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert(!tier_read(files, 2));
    kv_files_close(files);
}

Test(kv_files, files_of_another_geometry_model_or_numerics_are_deleted_at_start)
{
    struct geometry others[8];
    for (int i = 0; i < 8; i++)
        others[i] = TIER_GEOMETRY;
    others[0].model_digest[1]++;
    snprintf(others[1].numerics, sizeof others[1].numerics, "cpu-f32-fma-fma-compute-asis-2");
    others[2].n_layers = 1, others[2].n_kv_heads = 2; /* as many bytes */
    others[3].dtype = KV_BF16;
    others[4].head_dim = 16;
    others[5].dtype = KV_E4M3, others[5].kv_scales = 5;
    others[6].block_tokens = 16;
    others[7].groups = (struct cache_groups){.n = 1, .places = 2, .all = {{2, 64, {0}}}};
    for (int i = 0; i < 8; i++) {
        struct error error = {""};
        struct kv_files *files = tier_open(&folder, 8);
        tier_write(files, 1, 0, 0);
        kv_files_close(files);
        const struct kv_files_options options = {
            .folder = folder.path, .bytes_max = 1 << 20, .geometry = &others[i]};
        cr_assert_eq(kv_files_open(&options, &error, &files), STATUS_OK, "%s", error.text);
        cr_assert_eq(kv_files_found(files).n_foreign, 1, "%d", i);
        cr_assert_eq(tier_folder_count(&folder), 0);
        kv_files_close(files);
    }
}

/* Blocks of as many bytes, whose layers have other heads. */
Test(kv_files, files_of_groups_with_other_heads_are_deleted_at_start)
{
    struct geometry geometries[2] = {TIER_GEOMETRY, TIER_GEOMETRY};
    for (uint32_t i = 0; i < 2; i++) {
        geometries[i].groups = (struct cache_groups){.n = 2, .places = 4};
        geometries[i].groups.all[0] = (struct cache_group){1, 0, {1, 16}};
        geometries[i].groups.all[1] = (struct cache_group){1, 64, {1 + i, 8 / (1 + i)}};
        struct kv_files *files;
        struct error error = {""};
        const struct kv_files_options options = {
            .folder = folder.path, .bytes_max = 1 << 20, .geometry = &geometries[i]};
        cr_assert_eq(kv_files_open(&options, &error, &files), STATUS_OK, "%s", error.text);
        cr_assert_eq(kv_files_found(files).n_foreign, i);
        tier_write(files, 1, 0, 0);
        kv_files_close(files);
    }
}

Test(kv_files, without_its_key_a_folder_has_no_blocks)
{
    char path[128];
    snprintf(path, sizeof path, "%s/key", folder.blocks);
    for (int how = 0; how < 3; how++) {
        struct kv_files *files = tier_open(&folder, 8);
        const struct prefix_key before = kv_files_secret(files);
        tier_write(files, 1, 0, 0);
        kv_files_close(files);
        if (how == 0)
            cr_assert_eq(unlink(path), 0);
        else if (how == 1)
            cr_assert_eq(truncate(path, 20), 0);
        else {
            const int descriptor = open(path, O_RDWR);
            cr_assert_eq(pwrite(descriptor, "x", 1, 12), 1);
            close(descriptor);
        }
        files = tier_open(&folder, 8);
        const struct prefix_key after = kv_files_secret(files);
        cr_assert(memcmp(&before, &after, sizeof before) != 0);
        cr_assert_eq(kv_files_found(files).n_foreign, 1);
        cr_assert_eq(tier_folder_count(&folder), 0);
        kv_files_close(files);
    }
}

Test(kv_files, names_that_are_not_its_own_are_left_alone_and_half_written_ones_deleted)
{
    static const char *const NAMES[] = {"notes.txt", "0.kv", "tmp", "key-tmp"};
    char path[256];
    kv_files_close(tier_open(&folder, 8));
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder.blocks, NAMES[i]);
        close(open(path, O_CREAT | O_WRONLY, 0600));
    }
    kv_files_close(tier_open(&folder, 8));
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder.blocks, NAMES[i]);
        cr_assert_eq(access(path, F_OK) == 0, i < 2, "%s", NAMES[i]);
    }
}

/* ---- a system that fails ---- */

Test(kv_files, a_limit_on_files_loses_blocks_and_is_counted)
{
    struct kv_files *files = tier_open(&folder, 8);
    struct rlimit before, small;
    tier_write(files, 1, 0, 0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 600; /* a part of a block */
    setrlimit(RLIMIT_FSIZE, &small);
    for (uint64_t number = 2; number < 5; number++)
        cr_assert_eq(tier_try_write(files, number), STATUS_NOT_FOUND);
    setrlimit(RLIMIT_FSIZE, &before);
    cr_assert_eq(tier_counts(files).faults[STORE_FULL], 3);
    cr_assert_eq(tier_folder_count(&folder), 1);
    cr_assert(tier_read(files, 1) && !tier_has(files, 2));
    cr_assert_eq(tier_try_write(files, 2), STATUS_OK, "it goes on when there is room again");
    kv_files_close(files);
}

Test(kv_files, a_full_disk_has_the_newest_blocks_and_is_counted)
{
    if (mount("none", folder.path, "tmpfs", 0, "size=64k") != 0)
        cr_skip_test("a small file system cannot be mounted here");
    struct kv_files *files = tier_open(&folder, 100);
    char other[512];
    snprintf(other, sizeof other, "%s/other", folder.path);
    for (uint64_t number = 1; number <= 40; number++)
        cr_assert_eq(tier_try_write(files, number), STATUS_OK);
    const uint64_t n_kept = 40 - tier_counts(files).faults[STORE_FULL];
    cr_assert(n_kept > 4 && n_kept < 20, "%llu", (unsigned long long)n_kept);
    for (uint64_t number = 1; number <= 40; number++)
        cr_assert_eq(tier_read(files, number), number > 40 - n_kept);

    /* Somebody else takes what is removed for a block. */
    const int descriptor = open(other, O_CREAT | O_WRONLY, 0600);
    char page[4096] = {0};
    uint64_t n_lost = 0;
    for (uint64_t number = 41; number <= 60; number++) {
        while (write(descriptor, page, sizeof page) > 0)
            continue;
        n_lost += tier_try_write(files, number) == STATUS_NOT_FOUND;
    }
    close(descriptor);
    cr_assert_eq(unlink(other), 0);
    cr_assert_eq(tier_counts(files).faults[STORE_FULL], 60 - n_kept);
    cr_assert_eq(tier_try_write(files, 61), STATUS_OK, "there is room again");
    cr_assert(tier_read(files, 61));
    cr_assert_lt(n_lost, 20);
    kv_files_close(files);
    cr_assert_eq(umount(folder.path), 0);
}

Test(kv_files, a_process_without_descriptors_does_not_lose_its_files)
{
    struct rlimit before;
    struct kv_files *files = tier_open(&folder, 8);
    tier_write(files, 1, 0, 0);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    cr_assert(!tier_read(files, 1));
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    cr_assert_eq(tier_counts(files).faults[STORE_IO], 1);
    cr_assert(tier_read(files, 1));
    kv_files_close(files);
}

Test(kv_files, a_removed_folder_loses_blocks_and_nothing_else)
{
    struct kv_files *files = tier_open(&folder, 8);
    tier_write(files, 1, 0, 0);
    tier_folder_remove(&folder);
    cr_assert_eq(tier_try_write(files, 2), STATUS_NOT_FOUND);
    cr_assert(!tier_read(files, 1));
    const struct store_counts now = tier_counts(files);
    cr_assert_eq(now.faults[STORE_IO], 1);
    cr_assert_eq(now.faults[STORE_MISSING], 1);
    kv_files_close(files);
}

/* ---- folders that cannot be used ---- */

static void refuses(const char *path, uint64_t bytes_max, enum status status, const char *words)
{
    struct error error = {""};
    struct kv_files *files = NULL;
    const struct kv_files_options options = {
        .folder = path, .bytes_max = bytes_max, .geometry = &TIER_GEOMETRY};
    cr_assert_eq(kv_files_open(&options, &error, &files), status, "%s: %s", path, error.text);
    cr_assert(strstr(error.text, words), "%s", error.text);
    cr_assert_null(files);
}

/* A check before a start says it, too. */
static void refuses_at_once(const char *path, uint64_t bytes_max, enum status status,
                            const char *words)
{
    struct error error = {""};
    const struct kv_files_options options = {
        .folder = path, .bytes_max = bytes_max, .geometry = &TIER_GEOMETRY};
    cr_expect_neq(kv_files_check(&options, &error), STATUS_OK, "%s", path);
    cr_expect(error.text[0]);
    refuses(path, bytes_max, status, words);
}

Test(kv_files, a_check_makes_nothing_and_passes_what_opens)
{
    char path[512];
    struct error error = {""};
    snprintf(path, sizeof path, "%s/new", folder.path);
    const struct kv_files_options made = {
        .folder = path, .bytes_max = 1 << 20, .geometry = &TIER_GEOMETRY};
    const struct kv_files_options there = {
        .folder = folder.path, .bytes_max = 1 << 20, .geometry = &TIER_GEOMETRY};
    cr_expect_eq(kv_files_check(&made, &error), STATUS_OK, "%s", error.text);
    cr_expect_neq(access(path, F_OK), 0);
    cr_expect_eq(kv_files_check(&there, &error), STATUS_OK, "%s", error.text);
    cr_expect_neq(access(folder.blocks, F_OK), 0);
    cr_assert_eq(mkdir(folder.blocks, 0700), 0);
    cr_expect_eq(kv_files_check(&there, &error), STATUS_OK, "%s", error.text);
}

Test(kv_files, a_folder_that_cannot_be_used_is_refused_with_a_sentence)
{
    char path[512], long_path[5000];
    refuses_at_once(folder.path, 4095, STATUS_INVALID_ARGUMENT, "kv_disk_size is 4095 bytes");
    refuses_at_once(folder.path, 0, STATUS_INVALID_ARGUMENT, "kv_disk_size is 0 bytes");
    snprintf(path, sizeof path, "%s/no/such", folder.path);
    refuses_at_once(path, 1 << 20, STATUS_NOT_FOUND, "cannot make the folder");
    refuses_at_once("", 1 << 20, STATUS_NOT_FOUND, "cannot make the folder");
    snprintf(path, sizeof path, "%s/file", folder.path);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    refuses_at_once(path, 1 << 20, STATUS_IO_FAILED, "cannot make");
    memset(long_path, 'a', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    refuses_at_once(long_path, 1 << 20, STATUS_IO_FAILED, "cannot make the folder");
    refuses("/proc/self", 1 << 20, STATUS_IO_FAILED, "cannot make");
    cr_assert_eq(symlink("/tmp", folder.blocks), 0);
    refuses(folder.path, 1 << 20, STATUS_IO_FAILED, "cannot open");
    unlink(folder.blocks);
    close(open(folder.blocks, O_CREAT | O_WRONLY, 0600));
    refuses_at_once(folder.path, 1 << 20, STATUS_IO_FAILED, "cannot open");
    unlink(folder.blocks);
    cr_assert_eq(mkdir(folder.blocks, 0700), 0);
    snprintf(path, sizeof path, "%s/lock", folder.blocks);
    cr_assert_eq(mkdir(path, 0700), 0);
    refuses(folder.path, 1 << 20, STATUS_IO_FAILED, "cannot write to");
    rmdir(path);
    snprintf(path, sizeof path, "%s/key-tmp", folder.blocks);
    cr_assert_eq(mkdir(path, 0700), 0);
    refuses(folder.path, 1 << 20, STATUS_IO_FAILED, "cannot write to");
    rmdir(path);
}

Test(kv_files, another_users_folder_is_refused)
{
    if (geteuid() != 0)
        cr_skip_test("only root can give a folder away");
    cr_assert_eq(mkdir(folder.blocks, 0700), 0);
    cr_assert_eq(chown(folder.blocks, 12345, 12345), 0);
    refuses(folder.path, 1 << 20, STATUS_INVALID_ARGUMENT, "belongs to user 12345");
}

Test(kv_files, a_folder_has_one_owner_at_a_time)
{
    struct kv_files *files = tier_open(&folder, 8);
    tier_write(files, 1, 0, 0);
    refuses(folder.path, 1 << 20, STATUS_INVALID_ARGUMENT, "another process uses");
    cr_assert(tier_read(files, 1), "the refused one has deleted nothing");
    kv_files_close(files);
    kv_files_close(tier_open(&folder, 8));
}

Test(kv_files, an_owner_that_was_killed_leaves_the_folder_free)
{
    const pid_t child = fork();
    if (child == 0) {
        struct kv_files *files = NULL;
        const struct kv_files_options options = {
            .folder = folder.path, .bytes_max = 1 << 20, .geometry = &TIER_GEOMETRY};
        if (kv_files_open(&options, NULL, &files) == STATUS_OK)
            (void)tier_try_write(files, 1);
        kill(getpid(), SIGKILL);
    }
    int how;
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_assert(WIFSIGNALED(how));
    struct kv_files *files = tier_open(&folder, 8);
    cr_assert(tier_read(files, 1));
    kv_files_close(files);
}

/* ---- against a model ---- */

enum { FILES_MAX = 23, NUMBERS = 60, OPERATIONS = 100000 };

struct naive {
    uint64_t numbers[FILES_MAX]; /* in the order of their use */
    uint32_t n;
};

static uint32_t find(const struct naive *naive, uint64_t number)
{
    uint32_t i = 0;
    while (i < naive->n && naive->numbers[i] != number)
        i++;
    return i;
}

static void take_out(struct naive *naive, uint32_t at)
{
    naive->n--;
    for (uint32_t i = at; i < naive->n; i++)
        naive->numbers[i] = naive->numbers[i + 1];
}

static void check_all(struct kv_files *files, const struct naive *naive)
{
    for (uint64_t number = 1; number <= NUMBERS; number++)
        cr_assert_eq(tier_has(files, number), find(naive, number) < naive->n);
    cr_assert_eq(tier_folder_count(&folder), naive->n);
}

/* Number n has origin n % 3. */
/* One random operation on both. */
static void operate(struct kv_files **files, struct naive *naive, struct random *random)
{
    const uint64_t number = 1 + random_below(random, NUMBERS);
    const uint64_t choice = random_below(random, 1000);
    const uint32_t at = find(naive, number);
    const bool is_known = at < naive->n;
    if (choice < 560) {
        cr_assert_eq(tier_read(*files, number), is_known);
        if (is_known) {
            take_out(naive, at);
            naive->numbers[naive->n++] = number;
        }
    } else if (choice < 990) {
        if (is_known)
            take_out(naive, at);
        else if (naive->n == FILES_MAX)
            take_out(naive, 0);
        tier_write(*files, number, number / 2, number % 3);
        naive->numbers[naive->n++] = number;
    } else if (choice < 994) {
        KV_FILES_OPS.drop(*files, 1 + number % 2);
        for (uint32_t i = naive->n; i-- > 0;)
            if (naive->numbers[i] % 3 == 1 + number % 2)
                take_out(naive, i);
    } else if (choice < 995) {
        KV_FILES_OPS.clear(*files);
        naive->n = 0;
    } else {
        kv_files_close(*files);
        *files = tier_open(&folder, FILES_MAX);
        cr_assert_eq(kv_files_found(*files).n_kept, naive->n);
    }
}

Test(kv_files, a_hundred_thousand_random_operations_equal_those_of_a_list, .timeout = 300)
{
    struct naive naive = {.n = 0};
    struct random random;
    random_init(&random, 5);
    struct kv_files *files = tier_open(&folder, FILES_MAX);
    for (int i = 0; i < OPERATIONS; i++) {
        operate(&files, &naive, &random);
        if (i % 1000 == 0)
            check_all(files, &naive);
    }
    check_all(files, &naive);
    kv_files_close(files);
}
