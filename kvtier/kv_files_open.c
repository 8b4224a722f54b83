/* The folder: its lock, its key, and the files that are there already. */
#include "base/clock.h"
#include "base/random.h"
#include "base/secret.h"
#include "kvtier/kv_files_state.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUBFOLDER "kv-blocks"
#define LOCK_NAME "lock"
#define KEY_NAME  "key"
#define KEY_TMP   "key-tmp"

static const char KEY_MAGIC[8] = {'k', 'v', 'f', 'k', 'e', 'y', '0', '2'};

struct key_file {
    char magic[8];
    struct prefix_key secret;
    uint64_t generation;
    uint64_t check_lo, check_hi; /* SipHash of what is before it, with the secret */
};

static enum status fail(const struct kv_files *files, const char *what, struct error *error)
{
    const int number = errno;
    return error_set(error, number == ENOMEM ? STATUS_NO_MEMORY : STATUS_IO_FAILED,
                     "kv_disk: %s %s: %s", what, files->folder, strerror(number));
}

/* ---- the folder ---- */

static enum status open_folder(struct kv_files *files, const char *folder, struct error *error)
{
    struct stat stat;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return error_set(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO_FAILED,
                         "kv_disk: cannot make the folder %s: %s", folder, strerror(errno));
    const int n = snprintf(files->folder, sizeof files->folder, "%s/" SUBFOLDER, folder);
    if (n < 0 || (size_t)n >= sizeof files->folder)
        return error_set(error, STATUS_INVALID_ARGUMENT, "kv_disk: a path of %d bytes, at most %d",
                         n, PATH_MAX - 1);
    if (mkdir(files->folder, 0700) != 0 && errno != EEXIST)
        return fail(files, "cannot make", error);
    files->descriptor = open(files->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (files->descriptor < 0)
        return fail(files, "cannot open", error);
    if (fstat(files->descriptor, &stat) != 0)
        return fail(files, "cannot look at", error);
    if (stat.st_uid != geteuid())
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_disk: %s belongs to user %u, and this is user %u", files->folder,
                         (unsigned)stat.st_uid, (unsigned)geteuid());
    if ((stat.st_mode & 07777) != 0700 && fchmod(files->descriptor, 0700) != 0)
        return fail(files, "cannot close to others", error);
    return STATUS_OK;
}

static enum status take_lock(struct kv_files *files, struct error *error)
{
    files->lock = openat(files->descriptor, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                         0600);
    if (files->lock < 0)
        return fail(files, "cannot write to", error);
    if (flock(files->lock, LOCK_EX | LOCK_NB) == 0)
        return STATUS_OK;
    if (errno == EWOULDBLOCK)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_disk: another process uses %s: give each its own folder",
                         files->folder);
    return fail(files, "cannot lock", error);
}

/* ---- the key ---- */

static struct key_file key_file_of(const struct prefix_key *secret, uint64_t generation)
{
    struct key_file file = {.secret = *secret, .generation = generation};
    struct hash_key key;
    memcpy(&key, secret, sizeof key);
    memcpy(file.magic, KEY_MAGIC, sizeof file.magic);
    const struct hash128 check = hash128_of(&key, &file, offsetof(struct key_file, check_lo));
    secret_wipe(&key, sizeof key);
    file.check_lo = check.lo;
    file.check_hi = check.hi;
    return file;
}

static bool read_key(struct kv_files *files)
{
    struct key_file file, wanted;
    struct stat stat;
    const int descriptor = openat(files->descriptor, KEY_NAME,
                                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    const bool is_whole = fstat(descriptor, &stat) == 0 && stat.st_size == sizeof file &&
                          read(descriptor, &file, sizeof file) == sizeof file;
    close(descriptor);
    if (!is_whole)
        return false;
    wanted = key_file_of(&file.secret, file.generation);
    const bool is_good = secret_equal(&file, &wanted, sizeof file);
    if (is_good) {
        files->secret = file.secret;
        files->generation = file.generation;
    }
    secret_wipe(&file, sizeof file);
    secret_wipe(&wanted, sizeof wanted);
    return is_good;
}

/* 0, or an error number. */
static int write_key(const struct kv_files *files, uint64_t generation)
{
    struct key_file file = key_file_of(&files->secret, generation);
    const int descriptor = openat(files->descriptor, KEY_TMP,
                                  O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        const int failed = errno;
        secret_wipe(&file, sizeof file);
        return failed;
    }
    errno = EIO; /* of a short write */
    int failed = write(descriptor, &file, sizeof file) != sizeof file || fsync(descriptor) != 0
                     ? errno
                     : 0;
    secret_wipe(&file, sizeof file);
    if (close(descriptor) != 0 && !failed)
        failed = errno;
    if (!failed && (renameat(files->descriptor, KEY_TMP, files->descriptor, KEY_NAME) != 0 ||
                    fsync(files->descriptor) != 0))
        failed = errno;
    return failed;
}

static void use_generation(struct kv_files *files, uint64_t generation)
{
    char use[64];
    snprintf(use, sizeof use, "digests of KV files %" PRIu64, generation);
    const struct prefix_key digest = prefix_key_for(&files->secret, use);
    memcpy(&files->digest_key, &digest, sizeof files->digest_key);
    const uint64_t shape[2] = {files->shape.lo, files->shape.hi};
    files->layout = hash128_of(&files->digest_key, shape, sizeof shape);
    files->generation = generation;
}

int kv_files_write_next(struct kv_files *files)
{
    return write_key(files, files->generation + 1);
}

void kv_files_take_next(struct kv_files *files)
{
    use_generation(files, files->generation + 1);
}

/* is_new_out: the files that are there are of no use. */
static enum status take_key(struct kv_files *files, bool *is_new_out, struct error *error)
{
    *is_new_out = !read_key(files);
    if (*is_new_out) {
        TRY(random_secret(&files->secret, sizeof files->secret, error));
        errno = write_key(files, 0);
        if (errno != 0)
            return fail(files, "cannot write to", error);
    }
    use_generation(files, files->generation);
    return STATUS_OK;
}

static struct hash128 shape_of(const struct geometry *geometry)
{
    static const struct hash_key KEY = {"kv files layout"};
    char text[1024];
    int n = snprintf(
        text, sizeof text, "%u %u %u %u %u %s %016" PRIx64 "%016" PRIx64 " %s %" PRIu64,
        geometry->n_layers, geometry->n_kv_heads, geometry->head_dim, geometry->latent_dim,
        geometry->block_tokens, kv_dtype_name(geometry->dtype), geometry->model_digest[0],
        geometry->model_digest[1], geometry->numerics, geometry->kv_scales);
    for (uint32_t i = 0; i < geometry->groups.n && n > 0 && (size_t)n < sizeof text; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %u:%u", geometry->groups.all[i].n_layers,
                      geometry->groups.all[i].window);
    for (uint32_t i = 0; cache_groups_have_heads(&geometry->groups) && i < geometry->groups.n &&
                         n > 0 && (size_t)n < sizeof text;
         i++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %ux%u", geometry->groups.all[i].heads.n,
                      geometry->groups.all[i].heads.dim);
    if (n > 0 && (size_t)n < sizeof text)
        n += snprintf(text + n, sizeof text - (size_t)n, " %u %u", geometry->groups.places,
                      geometry->groups.n_state);
    assert(n > 0 && (size_t)n < sizeof text);
    return hash128_of(&KEY, text, (size_t)n);
}

/* ---- what is there ---- */

struct found_file {
    struct stored_block block;
    uint64_t time_ns;
};

struct found_files {
    struct found_file *all;
    size_t n, max;
};

static int by_time(const void *left, const void *right)
{
    const struct found_file *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return memcmp(&a->block.key.hash, &b->block.key.hash, sizeof a->block.key.hash);
}

static bool add_found(struct found_files *found, const struct found_file *file)
{
    if (found->n == found->max) {
        const size_t max = found->max ? 2 * found->max : 1024;
        struct found_file *all = realloc(found->all, max * sizeof *all);
        if (!all)
            return false;
        found->all = all;
        found->max = max;
    }
    found->all[found->n++] = *file;
    return true;
}

/* Keeps it for the index, or deletes it. False: NO_MEMORY. */
static bool look_at(struct kv_files *files, const char *name, bool is_key_new,
                    struct found_files *found)
{
    struct found_file file;
    uint64_t layout;
    struct stat stat;
    if (strcmp(name, KV_FILE_TMP) == 0 || strcmp(name, KEY_TMP) == 0) {
        (void)unlinkat(files->descriptor, name, 0);
        return true;
    }
    if (!kv_file_parse(name, &file.block, &layout))
        return true; /* not ours */
    if (is_key_new || layout != files->layout.lo) {
        files->found.n_foreign++;
        (void)unlinkat(files->descriptor, name, 0);
        return true;
    }
    if (fstatat(files->descriptor, name, &stat, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(stat.st_mode) ||
        (uint64_t)stat.st_size != KV_FILE_HEAD_BYTES + files->block_bytes) {
        files->found.n_broken++;
        (void)unlinkat(files->descriptor, name, 0);
        return true;
    }
    file.time_ns = (uint64_t)stat.st_mtim.tv_sec * NS_PER_S + (uint64_t)stat.st_mtim.tv_nsec;
    return add_found(found, &file);
}

static void keep_found(struct kv_files *files, struct found_files *found)
{
    char name[KV_FILE_NAME_MAX];
    if (found->n > 0)
        qsort(found->all, found->n, sizeof *found->all, by_time);
    for (size_t i = found->n; i-- > 0;) { /* of two files of a block the later one counts */
        const struct found_file *file = &found->all[i];
        if (stored_index_is_full(files->index) ||
            stored_index_find(files->index, &file->block.key) != STORED_NONE) {
            kv_file_name(files, &file->block, name);
            (void)unlinkat(files->descriptor, name, 0);
            files->found.n_over++;
            continue;
        }
        (void)stored_index_add(files->index, &file->block);
        files->found.n_kept++;
        if (file->time_ns > files->time_ns)
            files->time_ns = file->time_ns;
    }
    /* The latest was added first: turn the order around. */
    for (size_t i = 0; i < found->n; i++) {
        const uint32_t slot = stored_index_find(files->index, &found->all[i].block.key);
        if (slot != STORED_NONE)
            stored_index_use(files->index, slot);
    }
}

static enum status read_folder(struct kv_files *files, bool is_key_new, struct error *error)
{
    struct found_files found = {0};
    const int descriptor = openat(files->descriptor, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = descriptor < 0 ? NULL : fdopendir(descriptor);
    if (!folder) {
        const enum status status = fail(files, "cannot list", error);
        if (descriptor >= 0)
            close(descriptor);
        return status;
    }
    bool has_memory = true;
    const struct dirent *entry;
    while (has_memory && (entry = readdir(folder)))
        has_memory = look_at(files, entry->d_name, is_key_new, &found);
    closedir(folder);
    if (has_memory)
        keep_found(files, &found);
    free(found.all);
    return has_memory ? STATUS_OK : STATUS_NO_MEMORY;
}

/* ---- opening ---- */

static uint64_t file_bytes(uint64_t block_bytes)
{
    const uint64_t n_bytes = KV_FILE_HEAD_BYTES + block_bytes;
    return (n_bytes + KV_FILE_PAGE_BYTES - 1) / KV_FILE_PAGE_BYTES * KV_FILE_PAGE_BYTES;
}

static enum status check_size(const struct kv_files_options *options, struct error *error)
{
    const uint64_t n_file = file_bytes(geometry_block_bytes(options->geometry));
    char part[PART_TEXT_BYTES];
    if (options->bytes_max >= n_file)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "kv_disk_size is %" PRIu64
                     " bytes%s, and the file of a KV block takes %" PRIu64,
                     options->bytes_max, block_store_part_text(options->n_sharers, part), n_file);
}

static enum status make_index(struct kv_files *files, const struct kv_files_options *options,
                              struct error *error)
{
    files->file_bytes = file_bytes(files->block_bytes);
    TRY(check_size(options, error));
    uint64_t n = options->bytes_max / files->file_bytes;
    if (n > STORED_ENTRIES_MAX)
        n = STORED_ENTRIES_MAX;
    return stored_index_create((uint32_t)n, &files->index);
}

/* Whether path is a folder in which this process may make files. */
static enum status check_place(const char *path, bool *is_there_out, struct error *error)
{
    struct stat stat_of;
    *is_there_out = stat(path, &stat_of) == 0;
    if (!*is_there_out && errno == ENOENT)
        return STATUS_OK;
    if (*is_there_out && !S_ISDIR(stat_of.st_mode)) {
        *is_there_out = false;
        errno = ENOTDIR;
    }
    if (*is_there_out && access(path, R_OK | W_OK | X_OK) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_IO_FAILED, "kv_disk: cannot use the folder %s: %s", path,
                     strerror(errno));
}

/* The folder that path is in. */
static void parent_of(const char *path, char parent_out[PATH_MAX])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    snprintf(parent_out, PATH_MAX, "%.*s", n > 0 ? (int)n : 1, n > 0 ? path : ".");
}

static enum status check_folder(const char *folder, struct error *error)
{
    char path[PATH_MAX];
    struct stat link;
    bool is_there;
    const size_t n = strlen(folder) + strlen("/" SUBFOLDER);
    if (n >= PATH_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "kv_disk: a path of %zu bytes, at most %d",
                         n, PATH_MAX - 1);
    TRY(check_place(folder, &is_there, error));
    if (is_there) {
        snprintf(path, sizeof path, "%s/" SUBFOLDER, folder);
        return check_place(path, &is_there, error);
    }
    if (lstat(folder, &link) == 0) /* a link to nothing, in whose place no folder can be made */
        return error_set(error, STATUS_IO_FAILED, "kv_disk: cannot use the folder %s: %s", folder,
                         strerror(ENOENT));
    parent_of(folder, path);
    TRY(check_place(path, &is_there, error));
    if (is_there && folder[0])
        return STATUS_OK;
    return error_set(error, STATUS_NOT_FOUND, "kv_disk: cannot make the folder %s: %s", folder,
                     strerror(ENOENT));
}

enum status kv_files_check(const struct kv_files_options *options, struct error *error)
{
    TRY(check_size(options, error));
    return check_folder(options->folder, error);
}

enum status kv_files_open(const struct kv_files_options *options, struct error *error,
                          struct kv_files **files_out)
{
    bool is_key_new;
    struct kv_files *files = calloc(1, sizeof *files);
    if (!files)
        return STATUS_NO_MEMORY;
    files->descriptor = files->lock = -1;
    files->block_bytes = geometry_block_bytes(options->geometry);
    files->shape = shape_of(options->geometry);
    pthread_mutex_init(&files->mutex, NULL);
    enum status status = make_index(files, options, error);
    if (status == STATUS_OK)
        status = open_folder(files, options->folder, error);
    if (status == STATUS_OK)
        status = take_lock(files, error);
    if (status == STATUS_OK)
        status = take_key(files, &is_key_new, error);
    if (status == STATUS_OK)
        status = read_folder(files, is_key_new, error);
    if (status != STATUS_OK) {
        kv_files_close(files);
        return status;
    }
    *files_out = files;
    return STATUS_OK;
}

void kv_files_close(struct kv_files *files)
{
    if (!files)
        return;
    stored_index_destroy(files->index);
    if (files->must_renew)
        (void)kv_files_write_next(files); /* the disk may be well again */
    if (files->lock >= 0)
        close(files->lock);
    if (files->descriptor >= 0)
        close(files->descriptor);
    pthread_mutex_destroy(&files->mutex);
    secret_wipe(&files->secret, sizeof files->secret);
    secret_wipe(&files->digest_key, sizeof files->digest_key);
    free(files);
}

struct prefix_key kv_files_secret(const struct kv_files *files)
{
    return files->secret;
}

struct kv_files_found kv_files_found(const struct kv_files *files)
{
    return files->found;
}

const char *kv_files_folder(const struct kv_files *files)
{
    return files->folder;
}
