/* Blocks of a folder. */
#include "kvtier/kv_files.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/secret.h"
#include "kvtier/kv_files_state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const char MAGIC[8] = {'k', 'v', 'f', 'b', 'l', 'k', '0', '1'};

#define DIGEST_AT    112u
#define DIGEST_BYTES 16u

/* ---- names ---- */

void kv_file_name(const struct kv_files *files, const struct stored_block *block,
                  char name_out[KV_FILE_NAME_MAX])
{
    const int n = snprintf(name_out, KV_FILE_NAME_MAX,
                           "%016" PRIx64 "%016" PRIx64 "-%016" PRIx64 "%016" PRIx64 "-%016" PRIx64
                           "-%016" PRIx64 "-%u.kv",
                           block->key.hash.hi, block->key.hash.lo, block->parent.hi,
                           block->parent.lo, block->origin, files->layout.lo, block->key.group);
    assert(n > 0 && n < (int)KV_FILE_NAME_MAX);
    (void)n;
}

/* 16 digits in lower case. */
static bool parse_hex(const char **text, uint64_t *number_out)
{
    uint64_t number = 0;
    for (int i = 0; i < 16; i++) {
        const char digit = (*text)[i];
        if (digit >= '0' && digit <= '9')
            number = number << 4 | (uint64_t)(digit - '0');
        else if (digit >= 'a' && digit <= 'f')
            number = number << 4 | (uint64_t)(digit - 'a' + 10);
        else
            return false;
    }
    *text += 16;
    *number_out = number;
    return true;
}

static bool parse_char(const char **text, char wanted)
{
    return *(*text)++ == wanted;
}

bool kv_file_parse(const char *name, struct stored_block *block_out, uint64_t *layout_out)
{
    struct stored_block block = {.key.group = 0};
    const char *text = name;
    if (!parse_hex(&text, &block.key.hash.hi) || !parse_hex(&text, &block.key.hash.lo) ||
        !parse_char(&text, '-') || !parse_hex(&text, &block.parent.hi) ||
        !parse_hex(&text, &block.parent.lo) || !parse_char(&text, '-') ||
        !parse_hex(&text, &block.origin) || !parse_char(&text, '-') ||
        !parse_hex(&text, layout_out) || !parse_char(&text, '-'))
        return false;
    if (*text < '0' || *text > '9' || (*text == '0' && text[1] != '.'))
        return false;
    for (; *text >= '0' && *text <= '9'; text++) {
        block.key.group = block.key.group * 10 + (uint32_t)(*text - '0');
        if (block.key.group >= CACHE_ROWS_MAX)
            return false;
    }
    if (strcmp(text, ".kv") != 0)
        return false;
    *block_out = block;
    return true;
}

/* ---- faults ---- */

static void fault(struct kv_files *files, enum store_fault kind, int error_number)
{
    pthread_mutex_lock(&files->mutex);
    const bool is_first = files->counts.faults[kind]++ == 0;
    pthread_mutex_unlock(&files->mutex);
    if (is_first)
        log_warn("KV blocks in %s: a block is lost, %s%s%s; later ones are only counted",
                 files->folder, store_fault_name(kind), error_number ? ": " : "",
                 error_number ? strerror(error_number) : "");
}

static enum store_fault fault_of(int error_number)
{
    switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return STORE_FULL;
    default:
        return STORE_IO;
    }
}

/* Nothing is wrong with the file. */
static bool is_for_now(int error_number)
{
    return error_number == EMFILE || error_number == ENFILE || error_number == ENOMEM ||
           error_number == EINTR;
}

/* ---- the head of a file ---- */

static void put64(uint8_t *at, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(number >> (8 * i));
}

static void put_hash(uint8_t *at, uint64_t lo, uint64_t hi)
{
    put64(at, lo);
    put64(at + 8, hi);
}

static void make_head(const struct kv_files *files, const struct stored_block *block,
                      const uint8_t *bytes, uint8_t head_out[KV_FILE_HEAD_BYTES])
{
    memset(head_out, 0, KV_FILE_HEAD_BYTES);
    memcpy(head_out, MAGIC, sizeof MAGIC);
    put64(head_out + 8, block->key.group);
    put_hash(head_out + 16, block->key.hash.lo, block->key.hash.hi);
    put_hash(head_out + 32, block->parent.lo, block->parent.hi);
    put64(head_out + 48, block->origin);
    put64(head_out + 56, files->block_bytes);
    put_hash(head_out + 64, files->layout.lo, files->layout.hi);
    const struct hash128 head = hash128_of(&files->digest_key, head_out, DIGEST_AT);
    const struct hash128 all = hash128_chain(&files->digest_key, head, bytes, files->block_bytes);
    put_hash(head_out + DIGEST_AT, all.lo, all.hi);
}

/* ---- writing ---- */

/* 0, or an error number. */
static int write_all(int descriptor, const uint8_t *head, const uint8_t *bytes, size_t n_bytes)
{
    const size_t n_all = KV_FILE_HEAD_BYTES + n_bytes;
    for (size_t done = 0; done < n_all;) {
        const bool in_head = done < KV_FILE_HEAD_BYTES;
        const struct iovec parts[2] = {
            {(void *)(uintptr_t)(head + done), in_head ? KV_FILE_HEAD_BYTES - done : 0},
            {(void *)(uintptr_t)(in_head ? bytes : bytes + done - KV_FILE_HEAD_BYTES),
             in_head ? n_bytes : n_all - done}};
        const ssize_t n = in_head ? writev(descriptor, parts, 2) : writev(descriptor, parts + 1, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        done += (size_t)n;
    }
    return 0;
}

/* A time for files that is later than all before. */
static struct timespec next_time(struct kv_files *files)
{
    const uint64_t now_ns = clock_unix_ns();
    files->time_ns = now_ns > files->time_ns ? now_ns : files->time_ns + 1;
    return (struct timespec){.tv_sec = (time_t)(files->time_ns / NS_PER_S),
                             .tv_nsec = (long)(files->time_ns % NS_PER_S)};
}

static void mark_used(struct kv_files *files, int descriptor)
{
    const struct timespec time = next_time(files);
    (void)futimens(descriptor, (const struct timespec[2]){time, time}); /* the order is a hint */
}

static int write_file(struct kv_files *files, const struct stored_block *block,
                      const uint8_t *bytes)
{
    uint8_t head[KV_FILE_HEAD_BYTES];
    char name[KV_FILE_NAME_MAX];
    make_head(files, block, bytes, head);
    kv_file_name(files, block, name);
    const int descriptor = openat(files->descriptor, KV_FILE_TMP,
                                  O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor < 0)
        return errno;
    int failed = write_all(descriptor, head, bytes, files->block_bytes);
    mark_used(files, descriptor);
    if (close(descriptor) != 0 && !failed)
        failed = errno; /* as NFS tells that a disk is full */
    if (!failed && renameat(files->descriptor, KV_FILE_TMP, files->descriptor, name) != 0)
        failed = errno;
    if (failed)
        (void)unlinkat(files->descriptor, KV_FILE_TMP, 0);
    return failed;
}

/* ---- removing ---- */

/* 0, or an error number. */
static int unlink_block(const struct kv_files *files, const struct stored_block *block)
{
    char name[KV_FILE_NAME_MAX];
    kv_file_name(files, block, name);
    return unlinkat(files->descriptor, name, 0) == 0 || errno == ENOENT ? 0 : errno;
}

/* Of the index first: nobody finds it from then on. 0, or an error number; it was counted. */
static int remove_slot(struct kv_files *files, uint32_t slot, bool is_for_room)
{
    pthread_mutex_lock(&files->mutex);
    const struct stored_block block = *stored_index_at(files->index, slot);
    stored_index_remove(files->index, slot);
    files->counts.n_removed += is_for_room;
    pthread_mutex_unlock(&files->mutex);
    const int failed = unlink_block(files, &block);
    if (failed)
        fault(files, STORE_IO, failed);
    return failed;
}

/* False: the key file could not be written, which was counted; and nothing is kept until it can be. */
static bool renew(struct kv_files *files)
{
    const int failed = kv_files_write_next(files);
    files->must_renew = failed != 0;
    if (failed)
        fault(files, STORE_IO, failed);
    return !failed;
}

/* Files that cannot be removed are of the last generation, if there is a new one; so are those whose removal a crash of the
 * system undoes. */
static void clear(void *store)
{
    struct kv_files *files = store;
    const bool is_new = renew(files);
    while (stored_index_count(files->index) > 0)
        (void)remove_slot(files, stored_index_oldest(files->index), false);
    (void)fsync(files->descriptor);
    if (is_new)
        kv_files_take_next(files);
}

/* The index is changed by this thread alone: it needs the lock to change, not to look. */
static void drop(void *store, uint64_t origin)
{
    struct kv_files *files = store;
    uint32_t slot = stored_index_oldest(files->index), n_removed = 0;
    bool is_good = true;
    while (slot != STORED_NONE) {
        const uint32_t next = stored_index_next(files->index, slot);
        if (stored_index_at(files->index, slot)->origin == origin) {
            is_good = remove_slot(files, slot, false) == 0 && is_good;
            n_removed++;
        }
        slot = next;
    }
    if (n_removed > 0 && fsync(files->descriptor) != 0)
        is_good = false;
    if (!is_good)
        clear(files);
}

/* ---- the operations ---- */

static bool has(void *store, const struct stored_key *key)
{
    struct kv_files *files = store;
    pthread_mutex_lock(&files->mutex);
    const bool is_there = stored_index_find(files->index, key) != STORED_NONE;
    pthread_mutex_unlock(&files->mutex);
    return is_there;
}

static enum status write_block(void *store, const struct stored_block *block, const uint8_t *bytes)
{
    struct kv_files *files = store;
    const uint32_t known = stored_index_find(files->index, &block->key);
    if (files->must_renew) {
        if (!renew(files))
            return STATUS_NOT_FOUND;
        kv_files_take_next(files);
    }
    if (known != STORED_NONE)
        (void)remove_slot(files, known, false); /* it may have another origin now */
    while (stored_index_is_full(files->index))
        (void)remove_slot(files, stored_index_oldest(files->index), true);
    int failed = write_file(files, block, bytes);
    if (failed)
        fault(files, fault_of(failed), failed);
    if ((failed == ENOSPC || failed == EDQUOT) && stored_index_count(files->index) > 0) {
        (void)remove_slot(files, stored_index_oldest(files->index), true);
        failed = write_file(files, block, bytes);
    }
    if (failed)
        return STATUS_NOT_FOUND;
    pthread_mutex_lock(&files->mutex);
    stored_index_add(files->index, block);
    pthread_mutex_unlock(&files->mutex);
    return STATUS_OK;
}

/* False: kind says why, error_number too if the system said so. */
static bool read_file(struct kv_files *files, int descriptor, const struct stored_block *block,
                      uint8_t *bytes_out, enum store_fault *kind_out, int *error_out)
{
    uint8_t head[KV_FILE_HEAD_BYTES], wanted[KV_FILE_HEAD_BYTES];
    const size_t n_all = KV_FILE_HEAD_BYTES + files->block_bytes;
    struct stat stat;
    *kind_out = STORE_CORRUPT;
    *error_out = 0;
    if (fstat(descriptor, &stat) == 0 &&
        (!S_ISREG(stat.st_mode) || (uint64_t)stat.st_size != n_all))
        return false;
    const struct iovec parts[2] = {{head, sizeof head}, {bytes_out, files->block_bytes}};
    ssize_t n = preadv(descriptor, parts, 2, 0);
    while (n > 0 && (size_t)n < n_all) { /* a signal, or a slow network's file system */
        const size_t at = (size_t)n;
        const ssize_t more = at < sizeof head ? 0
                                              : pread(descriptor, bytes_out + at - sizeof head,
                                                      n_all - at, (off_t)at);
        if (more <= 0)
            break;
        n += more;
    }
    if (n < 0) {
        *kind_out = STORE_IO;
        *error_out = errno;
        return false;
    }
    if ((size_t)n != n_all)
        return false;
    make_head(files, block, bytes_out, wanted);
    if (memcmp(head, MAGIC, sizeof MAGIC) == 0 && memcmp(head + 56, wanted + 56, 24) != 0)
        *kind_out = STORE_FOREIGN; /* another length or layout; or that is what is damaged */
    return secret_equal(head, wanted, sizeof head);
}

static enum status read_block(void *store, const struct stored_key *key, uint8_t *bytes_out,
                              uint64_t *origin_out)
{
    struct kv_files *files = store;
    char name[KV_FILE_NAME_MAX];
    const uint32_t slot = stored_index_find(files->index, key);
    if (slot == STORED_NONE)
        return STATUS_NOT_FOUND;
    const struct stored_block block = *stored_index_at(files->index, slot);
    kv_file_name(files, &block, name);
    enum store_fault kind = STORE_MISSING;
    int error_number = 0;
    const int descriptor = openat(files->descriptor, name,
                                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool is_good = false;
    if (descriptor >= 0) {
        is_good = read_file(files, descriptor, &block, bytes_out, &kind, &error_number);
        if (is_good)
            mark_used(files, descriptor);
        close(descriptor);
    } else if (errno != ENOENT) {
        kind = errno == ELOOP ? STORE_CORRUPT : STORE_IO;
        error_number = errno;
    }
    if (!is_good) {
        fault(files, kind, error_number);
        if (!is_for_now(error_number))
            (void)remove_slot(files, slot, false);
        return STATUS_NOT_FOUND;
    }
    pthread_mutex_lock(&files->mutex);
    stored_index_use(files->index, slot);
    files->counts.n_read++;
    pthread_mutex_unlock(&files->mutex);
    *origin_out = block.origin;
    return STATUS_OK;
}

static void count(void *store, struct store_counts *counts_out)
{
    struct kv_files *files = store;
    pthread_mutex_lock(&files->mutex);
    *counts_out = files->counts;
    counts_out->n_blocks = stored_index_count(files->index);
    pthread_mutex_unlock(&files->mutex);
    counts_out->bytes = counts_out->n_blocks * files->file_bytes;
}

const struct block_store_ops KV_FILES_OPS = {.name = "disk",
                                             .has = has,
                                             .write = write_block,
                                             .read = read_block,
                                             .drop = drop,
                                             .clear = clear,
                                             .count = count};
