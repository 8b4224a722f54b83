/* adapter_loader: adapters come and go by calls, by name, within their memory and their folder; what cannot be loaded is refused by field
 * and value; a stop waits for a load under way. */
#include "base/clock.h"
#include "model/adapter/adapter.h"
#include "model/model.h"
#include "process/adapter_codec.h"
#include "tests/process/support/admin_bed.h"
#include "worker_common/adapter_loader.h"
#include "worker_common/adapter_set.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN   KVFERRY_SOURCE_DIR "/tests/golden"
#define ADAPTERS GOLDEN "/adapters"
#define LLAMA    ADAPTERS "/llama"
#define OTHER    ADAPTERS "/llama_other"
#define CONFIG   "adapter_config.json"
#define WEIGHTS  "adapter_model.safetensors"
#define LIMIT_NS (120 * NS_PER_S)

enum { LLAMA_BYTES = 14848, OTHER_BYTES = 3712 };

/* ---- a worker that does nothing else ---- */

static struct model *model;
static struct adapter_set *set;
static struct adapter_loader *loader;
static struct admin_bed bed;
static struct admin_answer answer;
static char folder[64]; /* of the test */

static void load(void *arg, struct rpc_call *call, const char *name, const char *from)
{
    (void)arg;
    adapter_loader_load(loader, call, name, from);
}

static void unload(void *arg, struct rpc_call *call, const char *name)
{
    (void)arg;
    adapter_loader_unload(loader, call, name);
}

/* all NULL: the worker has no adapters. */
static void open_worker(const char *all, uint32_t rank_max, uint64_t bytes_max)
{
    struct error error = {""};
    cr_assert_eq(model_load(GOLDEN "/models/llama_t5_bias", NULL, &error, &model), STATUS_OK, "%s",
                 error.text);
    const struct adapter_set_options options = {
        .model = model, .rank_max = rank_max, .bytes_max = bytes_max};
    if (all)
        cr_assert_eq(adapter_set_create(&options, &set), STATUS_OK);
    cr_assert_eq(adapter_loader_create(set, all ? all : "", &loader), STATUS_OK);
    bed.service = (struct admin_service){.load_adapter = load, .unload_adapter = unload};
    admin_bed_open(&bed);
}

static void close_worker(void)
{
    cr_assert(adapter_loader_stop(loader, clock_now_ns() + LIMIT_NS));
    admin_bed_close(&bed);
    adapter_loader_destroy(loader);
    adapter_set_destroy(set);
    model_destroy(model);
}

static void expect_loaded(const char *name, const char *from, uint64_t bytes)
{
    cr_assert_eq(admin_bed_load(&bed, name, from, &answer), STATUS_OK, "%s", answer.error.message);
    cr_expect_str_eq(answer.name, name);
    cr_expect_eq(answer.adapter_bytes, bytes, "%lu bytes", (unsigned long)answer.adapter_bytes);
}

static void expect_refused(const char *name, const char *from, enum status status, const char *word)
{
    cr_expect_eq(admin_bed_load(&bed, name, from, &answer), status, "%s=%s: %s", name, from,
                 status_name(answer.error.status));
    cr_expect(strstr(answer.error.message, word), "no \"%s\" in \"%s\"", word,
              answer.error.message);
}

static void expect_unloaded(const char *name, uint64_t bytes)
{
    cr_assert_eq(admin_bed_unload(&bed, name, &answer), STATUS_OK, "%s", answer.error.message);
    cr_expect_eq(answer.adapter_bytes, bytes, "%lu bytes", (unsigned long)answer.adapter_bytes);
}

static void expect_not_there(const char *name, enum status status, const char *word)
{
    cr_expect_eq(admin_bed_unload(&bed, name, &answer), status);
    cr_expect(strstr(answer.error.message, word), "no \"%s\" in \"%s\"", word,
              answer.error.message);
}

/* ---- folders ---- */

static char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;
    char *text = path[turn++ % 4];
    snprintf(text, sizeof path[0], "%s/%s", folder, name);
    return text;
}

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/adapter_loader_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *place)
{
    (void)found;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_all(void)
{
    cr_assert_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static size_t read_file(const char *path, uint8_t *bytes_out, size_t most)
{
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file, "%s", path);
    const size_t n = fread(bytes_out, 1, most, file);
    fclose(file);
    return n;
}

static void write_bytes(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *file = fopen(path, "we");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(bytes, 1, n, file), n);
    cr_assert_eq(fclose(file), 0);
}

/* The first n bytes. Returns how many the whole file has. */
static size_t copy(const char *from, const char *name, const char *to, size_t n)
{
    static uint8_t bytes[1 << 18];
    char path[256];
    snprintf(path, sizeof path, "%s/%s", from, name);
    const size_t all = read_file(path, bytes, sizeof bytes);
    snprintf(path, sizeof path, "%s/%s", to, name);
    write_bytes(path, bytes, n < all ? n : all);
    return all;
}

/* ---- tests ---- */

Test(adapter_loader, adapters_come_and_go_by_name)
{
    open_worker(ADAPTERS, 0, 0);
    expect_loaded("a", "llama", LLAMA_BYTES);
    char digest[sizeof answer.digest];
    memcpy(digest, answer.digest, sizeof digest);
    expect_loaded("b", "llama_other", LLAMA_BYTES + OTHER_BYTES);
    expect_loaded("a", "llama", LLAMA_BYTES + OTHER_BYTES); /* it is there */
    cr_expect_str_eq(answer.digest, digest);
    expect_refused("a", "llama_other", STATUS_INVALID_ARGUMENT, "unload it first");
    cr_expect(strstr(answer.error.message, digest), "%s", answer.error.message);
    expect_unloaded("a", OTHER_BYTES);
    expect_not_there("a", STATUS_NOT_FOUND, "adapter \"a\" is not there");
    expect_loaded("a", "llama_other", 2 * OTHER_BYTES);
    cr_expect_str_neq(answer.digest, digest);
    close_worker();
}

Test(adapter_loader, what_a_request_has_counts_until_it_ends)
{
    struct request_adapter held;
    struct adapter_id ids[ADAPTERS_MAX];
    struct error error = {""};
    open_worker(ADAPTERS, 0, LLAMA_BYTES + OTHER_BYTES);
    expect_loaded("a", "llama", LLAMA_BYTES);
    cr_assert_eq(adapter_set_list(set, ids), 1);
    cr_assert_eq(adapter_set_find(set, &ids[0], &error, &held), STATUS_OK, "%s", error.text);
    expect_unloaded("a", LLAMA_BYTES);
    expect_refused("b", "llama", STATUS_INVALID_ARGUMENT, "there is room for 3712");
    expect_loaded("b", "llama_other", LLAMA_BYTES + OTHER_BYTES);
    expect_refused("c", "llama_other", STATUS_INVALID_ARGUMENT, "adapter_memory is 18560 bytes");
    held.release(held.adapter);
    expect_loaded("a", "llama", LLAMA_BYTES + OTHER_BYTES);
    close_worker();
}

Test(adapter_loader, names_that_are_none_are_refused)
{
    char name[ADAPTER_NAME_MAX + 2] = "";
    open_worker(ADAPTERS, 0, 0);
    static const char *const NAMES[] = {"", "a b", "a=b", "\x7f", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        expect_refused(NAMES[i], "llama", STATUS_INVALID_ARGUMENT, "name is \"");
        expect_not_there(NAMES[i], STATUS_INVALID_ARGUMENT, "name is \"");
    }
    memset(name, 'n', ADAPTER_NAME_MAX + 1);
    expect_refused(name, "llama", STATUS_INVALID_ARGUMENT, "name is \"nnn");
    name[ADAPTER_NAME_MAX] = '\0';
    expect_loaded(name, "llama", LLAMA_BYTES);
    close_worker();
}

Test(adapter_loader, no_folder_but_those_in_the_configured_one)
{
    char name[NAME_MAX + 2] = "";
    make_folder();
    cr_assert_eq(mkdir(path_of("all"), 0700), 0);
    cr_assert_eq(mkdir(path_of("all/.hidden"), 0700), 0);
    cr_assert_eq(mkdir(path_of("all2"), 0700), 0);
    cr_assert_eq(symlink(LLAMA, path_of("all/out")), 0);
    cr_assert_eq(symlink("../all2", path_of("all/beside")), 0);
    cr_assert_eq(symlink("..", path_of("all/up")), 0);
    cr_assert_eq(symlink(".", path_of("all/itself")), 0);
    cr_assert_eq(symlink("round", path_of("all/round")), 0);
    cr_assert_eq(mkdir(path_of("all/linked"), 0700), 0);
    cr_assert_eq(symlink(LLAMA "/" CONFIG, path_of("all/linked/" CONFIG)), 0);
    cr_assert_eq(symlink(LLAMA "/" WEIGHTS, path_of("all/linked/" WEIGHTS)), 0);
    cr_assert_eq(mkdir(path_of("all/whole"), 0700), 0);
    (void)copy(LLAMA, CONFIG, path_of("all/whole"), SIZE_MAX);
    (void)copy(LLAMA, WEIGHTS, path_of("all/whole"), SIZE_MAX);
    cr_assert_eq(symlink("whole", path_of("all/within")), 0);
    write_bytes(path_of("all/file"), (const uint8_t *)"x", 1);
    open_worker(path_of("all"), 0, 0);

    static const char whole[] = LLAMA;
    static const char *const NO_NAMES[] = {"",     ".",       "..",       "../all2",     "/tmp",
                                           whole,  ".hidden", "whole/",   "whole/../..", "./whole",
                                           "./..", "a/b",     "..\\..\\x"};
    for (size_t i = 0; i < sizeof NO_NAMES / sizeof *NO_NAMES; i++)
        expect_refused("a", NO_NAMES[i], STATUS_INVALID_ARGUMENT, "expected the name of a folder");
    memset(name, 'n', NAME_MAX + 1);
    expect_refused("a", name, STATUS_INVALID_ARGUMENT, "expected the name of a folder");
    static const char *const OUT[] = {"out", "beside", "up", "itself"};
    for (size_t i = 0; i < sizeof OUT / sizeof *OUT; i++) {
        expect_refused("a", OUT[i], STATUS_INVALID_ARGUMENT, "a link out of adapter_folder");
        cr_expect(strstr(answer.error.message, OUT[i]), "%s", answer.error.message);
    }
    expect_refused("a", "linked", STATUS_CORRUPT, "is a link out of");
    expect_refused("a", "none", STATUS_NOT_FOUND, "folder is \"none\", in adapter_folder ");
    expect_refused("a", "round", STATUS_IO_FAILED, "folder is \"round\"");
    expect_refused("a", "file", STATUS_NOT_FOUND, "file/" CONFIG ": Not a directory");
    expect_loaded("a", "whole", LLAMA_BYTES);
    expect_loaded("b", "within", 2 * LLAMA_BYTES);
    close_worker();
    remove_all();
}

Test(adapter_loader, without_a_folder_none_is_loaded)
{
    open_worker(NULL, 0, 0);
    expect_refused("a", "llama", STATUS_UNSUPPORTED, "adapter_folder is not set");
    expect_not_there("a", STATUS_NOT_FOUND, "adapter \"a\" is not there");
    close_worker();
    open_worker("/nowhere", 0, 0);
    expect_refused("a", "llama", STATUS_NOT_FOUND, "adapter_folder is \"/nowhere\": No such file");
    close_worker();
}

Test(adapter_loader, no_more_and_no_larger_ones_than_agreed)
{
    char name[16];
    open_worker(ADAPTERS, 8, 0);
    expect_refused("deep", "llama_deep", STATUS_INVALID_ARGUMENT,
                   "rank 16, at most 8 (adapter_rank_max)");
    expect_refused("demo", "demo", STATUS_CORRUPT, "shape");
    for (uint32_t i = 0; i < ADAPTERS_MAX; i++) {
        snprintf(name, sizeof name, "a%u", i);
        expect_loaded(name, "llama_other", (i + 1) * OTHER_BYTES);
    }
    expect_refused("more", "llama_other", STATUS_INVALID_ARGUMENT,
                   "adapter more is one more than the 64");
    expect_loaded("a7", "llama_other", ADAPTERS_MAX * OTHER_BYTES); /* it is there */
    expect_unloaded("a7", (ADAPTERS_MAX - 1) * OTHER_BYTES);
    expect_loaded("more", "llama_other", ADAPTERS_MAX * OTHER_BYTES);
    close_worker();
}

Test(adapter_loader, a_folder_that_is_half_written_is_refused_and_loaded_when_it_is_whole)
{
    make_folder();
    open_worker(folder, 0, 0);
    expect_refused("a", "new", STATUS_NOT_FOUND, "folder is \"new\"");
    cr_assert_eq(mkdir(path_of("new"), 0700), 0);
    expect_refused("a", "new", STATUS_NOT_FOUND, CONFIG);
    const size_t n_config = copy(LLAMA, CONFIG, path_of("new"), 100);
    expect_refused("a", "new", STATUS_CORRUPT, CONFIG);
    (void)copy(LLAMA, CONFIG, path_of("new"), n_config);
    expect_refused("a", "new", STATUS_NOT_FOUND, WEIGHTS);
    const size_t n = copy(LLAMA, WEIGHTS, path_of("new"), 0);
    for (size_t i = 0; i < n; i += n / 7) {
        (void)copy(LLAMA, WEIGHTS, path_of("new"), i);
        expect_refused("a", "new", STATUS_CORRUPT, WEIGHTS);
    }
    cr_expect_eq(adapter_set_bytes(set), 0);
    (void)copy(LLAMA, WEIGHTS, path_of("new"), n);
    expect_loaded("a", "new", LLAMA_BYTES);
    close_worker();
    remove_all();
}

/* ---- at the same time ---- */

static atomic_bool is_over;

/* Cuts and rewrites the file in its place. */
static void *rewrite(void *arg)
{
    const char *path = arg;
    static uint8_t bytes[1 << 18];
    const size_t n = read_file(LLAMA "/" WEIGHTS, bytes, sizeof bytes);
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert_geq(file, 0);
    for (size_t cut = 0; !atomic_load(&is_over); cut = (cut + 4096) % n) {
        cr_assert_eq(ftruncate(file, (off_t)cut), 0);
        cr_assert_eq(pwrite(file, bytes, n, 0), (ssize_t)n);
    }
    close(file);
    return NULL;
}

Test(adapter_loader, a_file_that_is_cut_and_rewritten_meanwhile_harms_no_worker)
{
    pthread_t writer;
    make_folder();
    cr_assert_eq(mkdir(path_of("new"), 0700), 0);
    (void)copy(LLAMA, CONFIG, path_of("new"), SIZE_MAX);
    (void)copy(LLAMA, WEIGHTS, path_of("new"), SIZE_MAX);
    open_worker(folder, 0, 0);
    cr_assert_eq(pthread_create(&writer, NULL, rewrite, path_of("new/" WEIGHTS)), 0);
    for (int i = 0; i < 200; i++) {
        const enum status status = admin_bed_load(&bed, "a", "new", &answer);
        cr_expect(status == STATUS_OK || status == STATUS_CORRUPT || status == STATUS_IO_FAILED,
                  "%s: %s", status_name(status), answer.error.message);
        if (status == STATUS_OK)
            expect_unloaded("a", 0);
    }
    atomic_store(&is_over, true);
    pthread_join(writer, NULL);
    expect_loaded("a", "new", LLAMA_BYTES);
    close_worker();
    remove_all();
}

enum { N_CALLERS = 6, N_ROUNDS = 25 };

/* Its own name, with one folder and then the other. */
static void *come_and_go(void *arg)
{
    struct admin_answer own;
    char name[16];
    snprintf(name, sizeof name, "a%d", *(const int *)arg);
    for (int i = 0; i < N_ROUNDS; i++) {
        enum status status;
        do
            status = admin_bed_load(&bed, name, i % 2 ? "llama" : "llama_other", &own);
        while (status == STATUS_QUEUE_FULL);
        cr_assert_eq(status, STATUS_OK, "%s", own.error.message);
        cr_assert_str_eq(own.name, name);
        cr_assert_eq(admin_bed_unload(&bed, name, &own), STATUS_OK, "%s", own.error.message);
    }
    return NULL;
}

/* As requests do. */
static void *hold(void *arg)
{
    struct adapter_id ids[ADAPTERS_MAX];
    struct request_adapter held;
    (void)arg;
    while (!atomic_load(&is_over)) {
        const uint32_t n = adapter_set_list(set, ids);
        for (uint32_t i = 0; i < n; i++)
            if (adapter_set_find(set, &ids[i], NULL, &held) == STATUS_OK) {
                cr_assert_leq(adapter_rank(held.adapter), 7);
                cr_assert_eq(adapter_digest(held.adapter).lo, ids[i].digest[0]);
                held.release(held.adapter);
            }
        cr_assert_leq(adapter_set_bytes(set), N_CALLERS * (LLAMA_BYTES + OTHER_BYTES));
    }
    return NULL;
}

Test(adapter_loader, calls_and_requests_at_the_same_time)
{
    pthread_t callers[N_CALLERS], holder;
    int numbers[N_CALLERS];
    open_worker(ADAPTERS, 0, N_CALLERS * (LLAMA_BYTES + OTHER_BYTES));
    cr_assert_eq(pthread_create(&holder, NULL, hold, NULL), 0);
    for (int i = 0; i < N_CALLERS; i++) {
        numbers[i] = i;
        cr_assert_eq(pthread_create(&callers[i], NULL, come_and_go, &numbers[i]), 0);
    }
    for (int i = 0; i < N_CALLERS; i++)
        pthread_join(callers[i], NULL);
    atomic_store(&is_over, true);
    pthread_join(holder, NULL);
    cr_expect_eq(adapter_set_bytes(set), 0);
    cr_expect_eq(adapter_set_count(set), 0);
    close_worker();
}

/* Until it is refused for good. */
static void *load_on(void *arg)
{
    enum status status = STATUS_OK;
    struct admin_answer own;
    (void)arg;
    while (status != STATUS_DRAINING) {
        status = admin_bed_load(&bed, "a", "llama", &own);
        cr_assert(status == STATUS_OK || status == STATUS_QUEUE_FULL || status == STATUS_DRAINING,
                  "%s", own.error.message);
    }
    return NULL;
}

Test(adapter_loader, a_stop_waits_for_a_load_and_refuses_later_ones)
{
    pthread_t callers[2];
    open_worker(ADAPTERS, 0, 0);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&callers[i], NULL, load_on, NULL), 0);
    while (adapter_set_count(set) == 0)
        (void)sched_yield();
    cr_assert(adapter_loader_stop(loader, clock_now_ns() + LIMIT_NS));
    for (int i = 0; i < 2; i++)
        pthread_join(callers[i], NULL);
    expect_refused("a", "llama", STATUS_DRAINING, status_text(STATUS_DRAINING));
    expect_unloaded("a", 0); /* which reads nothing */
    close_worker();
    cr_assert(adapter_loader_stop(NULL, 0));
    adapter_loader_destroy(NULL);
}
