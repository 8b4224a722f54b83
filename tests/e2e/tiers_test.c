/* KV blocks that left the pool come back from a folder or from memory, and change no token: after others pushed them out, after a
 * restart, when files are damaged, and when the folder is gone. */
#include "support/command.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_REQUESTS = 6, N_TOKENS = 24 };

#define MODEL    KVFERRY_DEMO_MODEL
#define SIZE     "--kv-disk-size", "200M"
#define BLOCKS   "--kv-blocks", "150" /* one of the prompts and its step, and a part of the next */
#define RESTORED "kvferry_kv_tier_restored_tokens_total"

/* None is a beginning of another. */
static const uint32_t LENGTHS[N_REQUESTS] = {900, 610, 1000, 320, 750, 470};

TestSuite(tiers, .init = command_folder_make, .fini = command_folder_remove, .timeout = 600);

static char folders[2][160]; /* of the context worker and of the generation worker */

static void name_folders(void)
{
    snprintf(folders[0], sizeof folders[0], "%s", in_folder("context"));
    snprintf(folders[1], sizeof folders[1], "%s", in_folder("generation"));
}

/* Files of blocks in one of them. flips: a byte of each third one is changed. */
static uint32_t look(const char *folder, bool flips)
{
    char path[256], file[512];
    uint32_t n = 0;
    snprintf(path, sizeof path, "%s/kv-blocks", folder);
    DIR *open_folder = opendir(path);
    const struct dirent *entry;
    while (open_folder && (entry = readdir(open_folder))) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".kv") != 0)
            continue;
        if (flips && n % 3 == 0) {
            snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
            const int descriptor = open(file, O_RDWR);
            uint8_t byte;
            cr_assert_eq(pread(descriptor, &byte, 1, 200 + n), 1);
            byte ^= 4;
            cr_assert_eq(pwrite(descriptor, &byte, 1, 200 + n), 1);
            close(descriptor);
        }
        n++;
    }
    if (open_folder)
        closedir(open_folder);
    return n;
}

static void start_split(struct cluster *cluster, const char *const *both)
{
    cluster_start(cluster,
                  &(struct cluster_options){
                      .n_contexts = 1,
                      .n_generations = 1,
                      .both = both,
                      .context = (const char *const[]){"--kv-disk", folders[0], SIZE, NULL},
                      .generation = (const char *const[]){"--kv-disk", folders[1], SIZE, NULL}});
}

static double of_both(const struct cluster *cluster, const char *name, const char *label)
{
    return child_metric(&cluster->contexts[0], name, label) +
           child_metric(&cluster->generations[0], name, label);
}

/* Twice, and once more after a restart of all. What the generation worker has it does not ask the other one for. */
static void expect_restored(const char *const *both)
{
    struct work work;
    struct cluster cluster;
    name_folders();
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, both + 2); /* without BLOCKS: it has room */
    start_split(&cluster, both);
    expect_round(&work, &cluster);
    expect_round(&work, &cluster);
    cr_expect_gt(of_both(&cluster, RESTORED, ""), 250);
    cr_expect_eq(of_both(&cluster, "kvferry_kv_tier_errors_total", ""), 0);
    cr_expect_gt(of_both(&cluster, "kvferry_kv_evictions_total", ""), 10);
    cluster_stop(&cluster);
    cr_expect_gt(look(folders[0], false) + look(folders[1], false), 60);

    start_split(&cluster, both);
    expect_round(&work, &cluster);
    cr_expect_gt(of_both(&cluster, RESTORED, ""), 250, "after a restart");
    cr_expect_gt(of_both(&cluster, "kvferry_kv_tier_hits_total", "disk"), 10);
    cr_expect_eq(of_both(&cluster, "kvferry_kv_tier_errors_total", ""), 0);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(tiers, blocks_come_back_from_files_after_others_and_after_a_restart)
{
    expect_restored((const char *const[]){BLOCKS, NULL});
}

Test(tiers, a_context_worker_has_one_too)
{
    struct work work;
    struct cluster cluster;
    name_folders();
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, NULL);
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = (const char *const[]){BLOCKS, NULL},
                                                      .context = (const char *const[]){
                                                          "--kv-disk", folders[0], SIZE, NULL}});
    for (int round = 0; round < 2; round++)
        expect_round(&work, &cluster);
    cr_expect_gt(child_metric(&cluster.contexts[0], RESTORED, ""), 1000);
    cr_expect_gt(child_metric(&cluster.contexts[0], "kvferry_kv_transfer_bytes_total", ""),
                 1000000);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(tiers, layers_with_a_window_come_back_too)
{
    expect_restored((const char *const[]){"--kv-blocks", "180", "--attention-window", "64,0",
                                          "--force-window", "--kv-scrub", "--prefill-chunk-tokens",
                                          "64", "--prefill-batch-tokens", "64", NULL});
    expect_restored((const char *const[]){"--kv-blocks", "40", "--attention-window", "64",
                                          "--force-window", "--prefill-chunk-tokens", "32",
                                          "--prefill-batch-tokens", "32", NULL});
}

Test(tiers, eight_bits_and_another_size_of_blocks)
{
    expect_restored((const char *const[]){BLOCKS, "--kv-dtype", "e4m3", "--kv-block-tokens", "16",
                                          "--kv-digest", NULL});
}

Test(tiers, memory_of_the_host_stands_before_the_disk)
{
    struct work work;
    struct cluster cluster;
    name_folders();
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, NULL);
    cluster_start(&cluster,
                  &(struct cluster_options){.n_generations = 1,
                                            .generation = (const char *const[]){
                                                BLOCKS, "--kv-host-memory", "1M", "--kv-disk",
                                                folders[1], SIZE, "--kv-scrub", NULL}});
    for (int round = 0; round < 2; round++)
        expect_round(&work, &cluster);
    const struct child *worker = &cluster.generations[0];
    cr_expect_gt(child_metric(worker, "kvferry_kv_tier_blocks", "disk"), 60);
    cr_expect_gt(child_metric(worker, "kvferry_kv_tier_blocks", "host"), 10);
    cr_expect_leq(child_metric(worker, "kvferry_kv_tier_bytes", "host"), 1 << 20);
    cr_expect_gt(child_metric(worker, RESTORED, ""), 1000);
    cluster_stop(&cluster);

    cluster_start(&cluster,
                  &(struct cluster_options){.n_generations = 1,
                                            .generation = (const char *const[]){
                                                BLOCKS, "--kv-host-memory", "60M", NULL}});
    for (int round = 0; round < 2; round++)
        expect_round(&work, &cluster);
    cr_expect_gt(child_metric(worker, "kvferry_kv_tier_hits_total", "host"), 60);
    cr_expect_gt(child_metric(worker, RESTORED, ""), 1000);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(tiers, damaged_files_are_computed_again)
{
    struct work work;
    struct cluster cluster;
    name_folders();
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, NULL);
    for (int run = 0; run < 3; run++) {
        start_split(&cluster, (const char *const[]){BLOCKS, NULL});
        expect_round(&work, &cluster);
        cr_expect_eq(of_both(&cluster, "kvferry_kv_tier_errors_total", "") > 0, run > 0);
        cr_expect_eq(of_both(&cluster, "kvferry_kv_tier_errors_total", "corrupt") > 0, run > 0);
        cluster_stop(&cluster);
        cr_expect_gt(look(folders[0], true), 60);
        (void)look(folders[1], true);
    }
    work_destroy(&work);
}

/* The worker may still write. */
static void remove_blocks(const char *folder)
{
    char blocks[sizeof folders + sizeof "/kv-blocks"];
    snprintf(blocks, sizeof blocks, "%s/kv-blocks", folder);
    while (rmdir(blocks) != 0) {
        DIR *open_folder = opendir(blocks);
        const struct dirent *entry;
        cr_assert(open_folder);
        while ((entry = readdir(open_folder)))
            (void)unlinkat(dirfd(open_folder), entry->d_name, 0);
        closedir(open_folder);
    }
}

Test(tiers, a_folder_that_is_gone_costs_no_request)
{
    struct work work;
    struct cluster cluster;
    name_folders();
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, NULL);
    start_split(&cluster, (const char *const[]){BLOCKS, NULL});
    expect_round(&work, &cluster);
    for (int i = 0; i < 2; i++)
        remove_blocks(folders[i]);
    expect_round(&work, &cluster);
    cr_expect_gt(of_both(&cluster, "kvferry_kv_tier_errors_total", "io") +
                     of_both(&cluster, "kvferry_kv_tier_errors_total", "missing"),
                 0);
    cr_expect_leq(child_log_count(&cluster.contexts[0], "a block is lost"), 2,
                  "each kind is told once");
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(tiers, a_worker_that_was_killed_finds_its_files_again)
{
    struct work work;
    struct cluster cluster;
    name_folders();
    work_create(&work, LENGTHS, N_REQUESTS, N_TOKENS, NULL);
    start_split(&cluster, (const char *const[]){BLOCKS, NULL});
    expect_round(&work, &cluster);
    for (int i = 0; i < 2; i++) {
        struct child *child = i ? &cluster.contexts[0] : &cluster.generations[0];
        child_kill(child);
        child_restart(child);
    }
    cluster_wait_ready(&cluster, 1, 1);
    expect_round(&work, &cluster);
    cr_expect_gt(of_both(&cluster, RESTORED, ""), 1000);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(tiers, a_folder_has_one_worker)
{
    struct cluster cluster;
    name_folders();
    cluster_start(&cluster, &(struct cluster_options){.n_generations = 1,
                                                      .generation = (const char *const[]){
                                                          "--kv-disk", folders[1], SIZE, NULL}});
    RUN("gen-worker", MODEL, "--kv-disk", folders[1], SIZE, "--control-address", "127.0.0.1:0",
        "--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0");
    cr_expect_eq(last_command.exit_status, 1);
    EXPECT_IN(last_command.err, "kv_disk: another process uses ");
    cluster_stop(&cluster);
}

Test(tiers, what_cannot_be_is_refused_with_a_sentence)
{
    static const struct {
        const char *words[6], *sentence;
    } BAD[] = {
        {{"--kv-disk", "/tmp"}, "kv_disk is /tmp, and kv_disk_size is 0: it needs a size"},
        {{"--kv-disk", "/tmp", "--kv-disk-size", "0"}, "kv_disk_size is 0: it needs a size"},
        {{"--kv-disk-size", "1G"}, "kv_disk_size is 1073741824 bytes, and kv_disk names no folder"},
        {{"--kv-disk=", "--kv-disk-size", "1G"}, "and kv_disk names no folder"},
        {{"--kv-disk", "/tmp", "--kv-disk-size", "1G", "--prefix-cache=no"},
         "kv_disk keeps blocks of a prefix cache, and prefix_cache is no"},
        {{"--kv-disk", "/tmp", "--kv-disk-size", "1G", "--kv-manager", "contiguous"},
         "kv_disk keeps blocks of a prefix cache, and kv_manager contiguous has none"},
        {{"--kv-host-memory", "1G", "--prefix-cache=no"},
         "kv_host_memory keeps blocks of a prefix cache, and prefix_cache is no"},
        {{"--kv-host-memory", "1G", "--kv-manager", "contiguous"},
         "kv_host_memory keeps blocks of a prefix cache, and kv_manager contiguous has none"},
        {{"--kv-disk", "/no/such/folder", "--kv-disk-size", "1G"},
         "kv_disk: cannot make the folder /no/such/folder: No such file or directory"},
        {{"--kv-disk", "/proc/self", "--kv-disk-size", "1G"},
         "kv_disk: cannot make /proc/self/kv-blocks"},
        {{"--kv-disk", "/dev/null", "--kv-disk-size", "1G"},
         "kv_disk: cannot make /dev/null/kv-blocks: Not a directory"},
        {{"--kv-disk", "/tmp", "--kv-disk-size", "100"},
         "kv_disk_size is 100 bytes, and the file of a KV block takes "},
        {{"--kv-host-memory", "100"}, "kv_host_memory is 100 bytes, and a KV block takes "},
        {{"--kv-disk-size", "x"}, "--kv-disk-size"},
        {{"--kv-disk-size", "-1"}, "--kv-disk-size"},
        {{"--kv-disk-size", "1e9"}, "--kv-disk-size"},
        {{"--kv-disk-size", ""}, "--kv-disk-size"},
        {{"--kv-disk-size", "99999999999999999999"}, "--kv-disk-size"},
        {{"--kv-host-memory", "much"}, "--kv-host-memory"},
        {{"--kv-host-memory", "1Q"}, "--kv-host-memory"},
        {{"--kv-restore-ms", "-5"}, "--kv-restore-ms"},
        {{"--kv-restore-ms", "2h"}, "--kv-restore-ms"},
        {{"--kv-restore-ms", "soon"}, "--kv-restore-ms"},
        {{"--kv-disk"}, "--kv-disk"},
        {{"--kv-disks", "/tmp"}, "--kv-disks"},
        {{"--kv-disk", "/tmp", "--kv-disk-size", "1G", "--kv-disk-part", "a/b"},
         "kv_disk_part is a/b: it is one name"},
    };
    cr_assert_geq(sizeof BAD / sizeof *BAD, 25);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        const char *words[16] = {
            "gen-worker",       MODEL,         "--control-address", "127.0.0.1:0",
            "--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"};
        for (int w = 0; w < 6; w++)
            words[8 + w] = BAD[i].words[w];
        command_run(NULL, words);
        cr_expect(last_command.exit_status == 1 || last_command.exit_status == 2, "%zu", i);
        cr_expect(strstr(last_command.err, BAD[i].sentence), "%zu \"%s\" is not in: %s", i,
                  BAD[i].sentence, last_command.err);
    }
}
