#include "model/weights/weight_digest.h"

#include "base/text.h"
#include "base/thread_pool.h"
#include "kernels/blocks.h"
#include "kernels/finite.h"
#include "model/weights/weight_table.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

/* A thread reads one chunk at a time. on_progress is called after each round of chunks. */
enum { CHUNK_BYTES = 1 << 20, ROUND_CHUNKS = 64, E8M0_NAN = 255 };

struct chunk {
    const struct weight_entry *entry;
    const uint8_t *data;
    size_t bytes;
    int error;    /* errno of the reading; 0: none */
    uint64_t bad; /* the first element, byte or block that is not finite; their number: none */
};

struct reading {
    size_t n_chunks;
    struct chunk *chunks;   /* [n_chunks] of the used tensors in their order */
    struct hash128 *hashes; /* [n_chunks] */
    size_t round;           /* the first chunk of this round */
};

/* Of a chunk: whole elements, and whole blocks. */
static size_t chunk_bytes(const struct safetensor *tensor)
{
    const size_t block = safetensors_is_blocks(tensor->dtype)
                             ? dtype_block_shape(safetensors_block_dtype(tensor->dtype)).bytes
                             : 1;
    return CHUNK_BYTES / block * block;
}

static size_t count_chunks(const struct weight_entry *entry)
{
    const size_t bytes = chunk_bytes(entry->tensor);
    return entry->tensor->bytes / bytes + (entry->tensor->bytes % bytes != 0);
}

static void cut(struct reading *reading, const struct weight_entry *entry)
{
    const struct safetensor *tensor = entry->tensor;
    const size_t bytes = chunk_bytes(tensor);
    for (uint64_t at = 0; at < tensor->bytes; at += bytes) {
        uint64_t left = tensor->bytes - at;
        reading->chunks[reading->n_chunks++] = (struct chunk){
            .entry = entry,
            .data = tensor->data + at,
            .bytes = left < bytes ? left : bytes,
        };
    }
}

static enum status reading_init(struct reading *reading, const struct weight_files *files,
                                const bool *is_used)
{
    size_t n = 0;
    for (uint32_t i = 0; i < files->n_entries; i++)
        n += is_used[i] ? count_chunks(&files->entries[i]) : 0;
    reading->chunks = calloc(n + 1, sizeof *reading->chunks);
    reading->hashes = calloc(n + 1, sizeof *reading->hashes);
    if (!reading->chunks || !reading->hashes)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < files->n_entries; i++)
        if (is_used[i])
            cut(reading, &files->entries[i]);
    return STATUS_OK;
}

static void reading_finish(struct reading *reading)
{
    free(reading->chunks);
    free(reading->hashes);
}

/* ---- one chunk ---- */

/* MADV_POPULATE_READ returns an error where a plain access would get SIGBUS: for a truncated file or a bad
 * sector. */
static int page_in(const uint8_t *data, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = (uintptr_t)data % page;
    if (madvise((void *)(uintptr_t)(data - before), bytes + before, MADV_POPULATE_READ) == 0)
        return 0;
    return errno == EINVAL ? 0 : errno; /* EINVAL: Linux before 5.14: hashing pages in */
}

static enum dtype dtype_of(const struct safetensor *tensor)
{
    assert(tensor->dtype == SAFETENSORS_F32 || tensor->dtype == SAFETENSORS_BF16 ||
           tensor->dtype == SAFETENSORS_F16);
    return tensor->dtype == SAFETENSORS_F32    ? DTYPE_F32
           : tensor->dtype == SAFETENSORS_BF16 ? DTYPE_BF16
                                               : DTYPE_F16;
}

/* Those of quantized matrices: MXFP4, E4M3 and whole numbers. */
static bool is_bytes(const struct safetensor *tensor)
{
    return tensor->dtype != SAFETENSORS_F32 && tensor->dtype != SAFETENSORS_BF16 &&
           tensor->dtype != SAFETENSORS_F16 && !safetensors_is_blocks(tensor->dtype);
}

static uint64_t n_elements(const struct chunk *chunk)
{
    const struct safetensor *tensor = chunk->entry->tensor;
    if (safetensors_is_blocks(tensor->dtype))
        return chunk->bytes / dtype_block_shape(safetensors_block_dtype(tensor->dtype)).bytes;
    return is_bytes(tensor) ? chunk->bytes : chunk->bytes / dtype_bytes(dtype_of(tensor));
}

/* The scales of MXFP4 have one byte that is NaN, E4M3 has two, and whole numbers have none. */
static uint64_t first_nan_byte(const struct chunk *chunk)
{
    for (uint64_t i = 0; chunk->entry->tensor->dtype == SAFETENSORS_F8_E4M3 && i < chunk->bytes;
         i++)
        if ((chunk->data[i] & 0x7f) == 0x7f)
            return i;
    const bool has_scales = text_ends_with(chunk->entry->tensor->name, MXFP4_SCALES);
    const uint8_t *nan = has_scales ? memchr(chunk->data, E8M0_NAN, chunk->bytes) : NULL;
    return nan ? (uint64_t)(nan - chunk->data) : chunk->bytes;
}

struct hash128 weight_digest_bytes(const void *data, size_t bytes)
{
    const XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return (struct hash128){hash.low64, hash.high64};
}

static void read_chunk(void *arg, uint32_t index)
{
    struct reading *reading = arg;
    size_t at = reading->round + index;
    struct chunk *chunk = &reading->chunks[at];
    chunk->error = page_in(chunk->data, chunk->bytes);
    if (chunk->error)
        return;
    reading->hashes[at] = weight_digest_bytes(chunk->data, chunk->bytes);
    if (is_bytes(chunk->entry->tensor))
        chunk->bad = first_nan_byte(chunk);
    else if (safetensors_is_blocks(chunk->entry->tensor->dtype))
        chunk->bad = blocks_first_not_finite(safetensors_block_dtype(chunk->entry->tensor->dtype),
                                             chunk->data, n_elements(chunk));
    else
        chunk->bad = first_not_finite(dtype_of(chunk->entry->tensor), chunk->data,
                                      n_elements(chunk));
}

/* Reports what is wrong with the chunk. */
static enum status judge_chunk(const struct chunk *chunk, struct error *error)
{
    const struct safetensor *tensor = chunk->entry->tensor;
    const char *file = chunk->entry->shard->name;
    if (chunk->error)
        return error_set(error, STATUS_IO_FAILED, "%.100s: tensor %.100s cannot be read: %s", file,
                         tensor->name, strerror(chunk->error));
    if (chunk->bad == n_elements(chunk))
        return STATUS_OK;
    if (is_bytes(tensor))
        return error_set(error, STATUS_CORRUPT,
                         "%.80s: tensor %.120s has a value that is nan (byte %" PRIu64
                         "), weights must be finite",
                         file, tensor->name, (uint64_t)(chunk->data - tensor->data) + chunk->bad);
    if (safetensors_is_blocks(tensor->dtype))
        return error_set(error, STATUS_CORRUPT,
                         "%.80s: tensor %.120s has a scale that is not finite (block %" PRIu64
                         "), weights must be finite",
                         file, tensor->name,
                         (uint64_t)(chunk->data - tensor->data) /
                                 dtype_block_shape(safetensors_block_dtype(tensor->dtype)).bytes +
                             chunk->bad);
    const enum dtype dtype = dtype_of(tensor);
    const float bad = dtype_load(dtype, chunk->data, chunk->bad);
    const double value = (double)(isnan(bad) ? NAN : bad); /* without a sign */
    const uint64_t at = (uint64_t)(chunk->data - tensor->data) / dtype_bytes(dtype) + chunk->bad;
    const uint64_t columns = tensor->n_dims == 2 ? tensor->shape[1] : 0;
    if (columns == 0)
        return error_set(error, STATUS_CORRUPT,
                         "%.80s: tensor %.120s is %g at [%" PRIu64 "], weights must be finite",
                         file, tensor->name, value, at);
    return error_set(error, STATUS_CORRUPT,
                     "%.80s: tensor %.120s is %g at [%" PRIu64 ", %" PRIu64
                     "], weights must be finite",
                     file, tensor->name, value, at / columns, at % columns);
}

/* ---- all chunks ---- */

static void run(struct thread_pool *threads, uint32_t n, struct reading *reading)
{
    if (threads) {
        thread_pool_run(threads, n, read_chunk, reading);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        read_chunk(reading, i);
}

static enum status read_all(struct reading *reading, const struct weight_digest_options *options,
                            struct error *error)
{
    uint64_t done = 0, all = 0;
    for (size_t i = 0; i < reading->n_chunks; i++)
        all += reading->chunks[i].bytes;
    for (size_t end; reading->round < reading->n_chunks; reading->round = end) {
        if (options->on_progress)
            options->on_progress(options->arg, done, all);
        size_t left = reading->n_chunks - reading->round;
        uint32_t n = left < ROUND_CHUNKS ? (uint32_t)left : ROUND_CHUNKS;
        run(options->threads, n, reading);
        end = reading->round + n;
        for (size_t i = reading->round; i < end; i++) {
            TRY(judge_chunk(&reading->chunks[i], error));
            done += reading->chunks[i].bytes;
        }
    }
    if (options->on_progress)
        options->on_progress(options->arg, all, all);
    return STATUS_OK;
}

enum status weight_digest_read(const struct weight_files *files, const bool *is_used,
                               const struct weight_digest_options *options,
                               struct hash128 *digests_out, struct error *error)
{
    static const struct hash_key KEY = {{0}};
    struct reading reading = {0};
    enum status status = reading_init(&reading, files, is_used);
    if (status == STATUS_OK)
        status = read_all(&reading, options, error);
    const struct hash128 *hashes = reading.hashes;
    for (uint32_t i = 0; status == STATUS_OK && i < files->n_entries; i++) {
        if (!is_used[i])
            continue;
        size_t n = count_chunks(&files->entries[i]);
        digests_out[i] = hash128_of(&KEY, hashes, n * sizeof *hashes);
        hashes += n;
    }
    reading_finish(&reading);
    return status;
}
