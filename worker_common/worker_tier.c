#include "worker_common/worker_tier.h"

#include "base/log/log.h"
#include "base/random.h"
#include "base/secret.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1 << 20)
/* Memory for blocks on their way out: a whole context, so that a prompt that pushes others out loses none, and at least ...; at
 * most ... */
#define STORE_BYTES_MIN ((uint64_t)32 * MIB)
#define STORE_BYTES_MAX ((uint64_t)256 * MIB)
#define STORES_MIN      8u
#define STORES_MAX      65536u
/* And on their way back. */
#define PIECES_BYTES ((uint64_t)64 * MIB)
#define PIECES_MAX   512u

static bool has_disk(const struct worker_options *options)
{
    return options->kv_disk && options->kv_disk[0];
}

static bool has_tier(const struct worker_options *options)
{
    return has_disk(options) || options->kv_host_memory > 0;
}

static bool is_name(const char *part)
{
    return !part || (!strchr(part, '/') && strcmp(part, ".") != 0 && strcmp(part, "..") != 0);
}

enum status worker_tier_check(const struct worker_options *options, struct error *error)
{
    const char *row = has_disk(options) ? "kv_disk" : "kv_host_memory";
    if (has_disk(options) && options->kv_disk_size == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_disk is %s, and kv_disk_size is 0: it needs a size", options->kv_disk);
    if (!has_disk(options) && options->kv_disk_size > 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_disk_size is %" PRIu64 " bytes, and kv_disk names no folder",
                         options->kv_disk_size);
    if (!has_tier(options))
        return STATUS_OK;
    if (options->kv_manager == KV_MANAGER_CONTIGUOUS)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s keeps blocks of a prefix cache, and kv_manager contiguous has none",
                         row);
    if (!options->prefix_cache)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s keeps blocks of a prefix cache, and prefix_cache is no", row);
    if (!is_name(options->kv_disk_part))
        return error_set(error, STATUS_INVALID_ARGUMENT, "kv_disk_part is %s: it is one name",
                         options->kv_disk_part);
    return STATUS_OK;
}

/* ---- opening ---- */

/* The worker's folder: kv_disk, or its part of it. */
static enum status folder_of(const struct worker_options *options, char folder_out[PATH_MAX],
                             struct error *error)
{
    const bool has_part = options->kv_disk_part && options->kv_disk_part[0];
    const int n = snprintf(folder_out, PATH_MAX, "%s%s%s", options->kv_disk, has_part ? "/" : "",
                           has_part ? options->kv_disk_part : "");
    if (n < 0 || n >= PATH_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "kv_disk: a path of %d bytes, at most %d",
                         n, PATH_MAX - 1);
    return STATUS_OK;
}

static struct kv_files_options
files_options(const struct worker *worker, const struct worker_options *options, const char *folder)
{
    return (struct kv_files_options){.folder = folder,
                                     .bytes_max = options->kv_disk_size / options->kv_sharers,
                                     .n_sharers = options->kv_sharers,
                                     .geometry = &worker->identity.geometry};
}

static struct host_blocks_options host_options(const struct worker *worker,
                                               const struct worker_options *options)
{
    return (struct host_blocks_options){
        .bytes_max = options->kv_host_memory / options->kv_sharers,
        .n_sharers = options->kv_sharers,
        .block_bytes = geometry_block_bytes(&worker->identity.geometry),
        .next = worker->tier.files ? &KV_FILES_OPS : NULL,
        .next_store = worker->tier.files,
        .wipes = options->kv_scrub,
    };
}

static uint32_t clamp(uint64_t n, uint32_t least, uint32_t most)
{
    return n < least ? least : n > most ? most : (uint32_t)n;
}

/* Without a store. */
static struct kv_tier_options tier_options(const struct worker *worker,
                                           const struct worker_options *options)
{
    const struct geometry *geometry = &worker->identity.geometry;
    const size_t block_bytes = geometry_block_bytes(geometry);
    const uint64_t stores_max = STORE_BYTES_MAX / block_bytes;
    uint64_t n_stores = STORE_BYTES_MIN / block_bytes;
    if (n_stores < worker->context_blocks)
        n_stores = worker->context_blocks;
    return (struct kv_tier_options){
        .block_bytes = block_bytes,
        .stores_max = clamp(n_stores < stores_max ? n_stores : stores_max, STORES_MIN, STORES_MAX),
        .pieces_max = clamp(PIECES_BYTES / block_bytes, prefix_tier_pieces_min(geometry),
                            PIECES_MAX),
        .keys_max = prefix_tier_keys_max(geometry, worker->context_tokens),
        .wipes = options->kv_scrub,
    };
}

uint64_t worker_tier_bytes(const struct worker *worker, const struct worker_options *options)
{
    if (!has_tier(options))
        return 0;
    const struct kv_tier_options made = tier_options(worker, options);
    return options->kv_host_memory / options->kv_sharers + kv_tier_bytes(&made);
}

/* Before it is taken, all at once: else the kernel would end the process. */
static enum status check_room(const struct worker *worker, const struct worker_options *options,
                              struct error *error)
{
    const uint64_t of_one = worker_tier_bytes(worker, options) + KV_START_BYTES + KV_LOAD_BYTES;
    if (of_one <= worker->room_bytes / options->kv_sharers)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY,
                     "kv_host_memory is %" PRIu64 " bytes: %u workers need %.1f MiB beside KV "
                     "blocks and weights, and %.1f MiB are available; lower it, or give the "
                     "process more memory",
                     options->kv_host_memory, options->kv_sharers,
                     (double)of_one * options->kv_sharers / MIB, (double)worker->room_bytes / MIB);
}

/* Of `kvferry serve`, where kv_disk itself may have to be made, too, that is what counts. */
static enum status check_files(const struct worker *worker, const struct worker_options *options,
                               struct error *error)
{
    char folder[PATH_MAX];
    TRY(folder_of(options, folder, error));
    if (access(options->kv_disk, F_OK) != 0)
        snprintf(folder, sizeof folder, "%s", options->kv_disk);
    const struct kv_files_options files = files_options(worker, options, folder);
    return kv_files_check(&files, error);
}

enum status worker_tier_fits(const struct worker *worker, const struct worker_options *options,
                             struct error *error)
{
    if (has_disk(options))
        TRY(check_files(worker, options, error));
    if (options->kv_host_memory == 0)
        return STATUS_OK;
    const struct host_blocks_options host = host_options(worker, options);
    TRY(host_blocks_check(&host, error));
    return check_room(worker, options, error);
}

static enum status open_files(struct worker *worker, const struct worker_options *options,
                              struct error *error)
{
    const bool has_part = options->kv_disk_part && options->kv_disk_part[0];
    char folder[PATH_MAX];
    if (has_part && mkdir(options->kv_disk, 0700) != 0 && errno != EEXIST)
        return error_set(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO_FAILED,
                         "kv_disk: cannot make the folder %s: %s", options->kv_disk,
                         strerror(errno));
    TRY(folder_of(options, folder, error));
    const struct kv_files_options files = files_options(worker, options, folder);
    TRY(kv_files_open(&files, error, &worker->tier.files));
    const struct kv_files_found found = kv_files_found(worker->tier.files);
    log_event(LOG_INFO, NULL, "KV blocks on disk",
              LOG_TEXT("folder", kv_files_folder(worker->tier.files)),
              LOG_U64("files", found.n_kept), LOG_U64("foreign", found.n_foreign),
              LOG_U64("over", found.n_over), LOG_U64("broken", found.n_broken),
              LOG_U64("bytes_max", files.bytes_max));
    return STATUS_OK;
}

static enum status open_host(struct worker *worker, const struct worker_options *options,
                             struct error *error)
{
    const struct host_blocks_options host = host_options(worker, options);
    TRY(check_room(worker, options, error));
    return host_blocks_create(&host, error, &worker->tier.host);
}

static enum status open_tier(struct worker *worker, const struct worker_options *options,
                             struct error *error)
{
    struct worker_tier *tier = &worker->tier;
    struct kv_tier_options made = tier_options(worker, options);
    made.ops = tier->host ? &HOST_BLOCKS_OPS : &KV_FILES_OPS;
    made.store = tier->host ? (void *)tier->host : (void *)tier->files;
    enum status status = kv_tier_create(&made, &tier->tier);
    if (status == STATUS_OK)
        status = kv_tier_start(tier->tier);
    if (status != STATUS_OK)
        return error_set(error, status, "the tier of KV blocks, with %" PRIu64 " bytes: %s",
                         kv_tier_bytes(&made), status_text(status));
    return STATUS_OK;
}

enum status worker_tier_open(struct worker *worker, const struct worker_options *options,
                             struct error *error)
{
    struct prefix_key secret;
    assert(!worker->tier.tier && worker->context_blocks > 0);
    if (has_disk(options))
        TRY(open_files(worker, options, error));
    if (worker->tier.files)
        secret = kv_files_secret(worker->tier.files);
    else
        TRY(random_secret(&secret, sizeof secret, error));
    worker->prefix_key = prefix_key_for(&secret, worker->identity.geometry.numerics);
    secret_wipe(&secret, sizeof secret);
    if (options->kv_host_memory > 0)
        TRY(open_host(worker, options, error));
    return has_tier(options) ? open_tier(worker, options, error) : STATUS_OK;
}

void worker_tier_close(struct worker *worker)
{
    if (kv_tier_destroy(worker->tier.tier)) { /* else its thread uses them */
        host_blocks_destroy(worker->tier.host);
        kv_files_close(worker->tier.files);
    }
    worker->tier = (struct worker_tier){0};
}

void worker_tier_wake(const struct worker *worker, void (*wake)(void *engine), void *engine)
{
    if (worker->tier.tier)
        kv_tier_on_piece(worker->tier.tier, wake, engine);
}

/* ---- figures ---- */

static void tell_host(struct worker_tier *tier, const struct worker_metrics *metrics)
{
    struct store_counts counts;
    if (!tier->host)
        return;
    host_blocks_count(tier->host, &counts);
    gauge_set(metrics->tier_host_blocks, (double)counts.n_blocks);
    gauge_set(metrics->tier_host_bytes, (double)counts.bytes);
    counter_follow(metrics->tier_host_hits, counts.n_read, &tier->last.host_hits);
    counter_follow(metrics->tier_host_removed, counts.n_removed, &tier->last.host_removed);
}

static void tell_disk(struct worker_tier *tier, const struct worker_metrics *metrics)
{
    struct counter *const faults[STORE_FAULTS] = {
        [STORE_FULL] = metrics->tier_full,       [STORE_IO] = metrics->tier_io,
        [STORE_CORRUPT] = metrics->tier_corrupt, [STORE_FOREIGN] = metrics->tier_foreign,
        [STORE_MISSING] = metrics->tier_missing,
    };
    struct store_counts counts;
    if (!tier->files)
        return;
    KV_FILES_OPS.count(tier->files, &counts);
    gauge_set(metrics->tier_disk_blocks, (double)counts.n_blocks);
    gauge_set(metrics->tier_disk_bytes, (double)counts.bytes);
    counter_follow(metrics->tier_disk_hits, counts.n_read, &tier->last.disk_hits);
    counter_follow(metrics->tier_disk_removed, counts.n_removed, &tier->last.disk_removed);
    for (int i = 0; i < STORE_FAULTS; i++)
        counter_follow(faults[i], counts.faults[i], &tier->last.faults[i]);
}

void worker_tier_tell(struct worker *worker, const struct worker_metrics *metrics,
                      const struct prefix_tier_figures *figures)
{
    struct tier_totals *last = &worker->tier.last;
    if (!worker->tier.tier)
        return;
    tell_host(&worker->tier, metrics);
    tell_disk(&worker->tier, metrics);
    counter_follow(metrics->tier_stored, figures->tier.n_stored, &last->stored);
    counter_follow(metrics->tier_not_kept_full, figures->tier.n_dropped, &last->full);
    counter_follow(metrics->tier_not_kept_origins, figures->mixed, &last->origins);
    counter_follow(metrics->tier_tokens, figures->tokens, &last->tokens);
    counter_follow(metrics->tier_restores, figures->n_orders, &last->orders);
    counter_follow(metrics->tier_late, figures->n_late, &last->late);
    counter_follow(metrics->tier_short, figures->tier.n_missed, &last->missed);
    counter_follow(metrics->tier_no_room, figures->no_room, &last->no_room);
}
