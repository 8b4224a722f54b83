#include "cli/serve/child.h"

#include "base/clock.h"
#include "gguf/gguf_file.h"
#include "model/files/other_format.h"
#include "process/process.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 5 /* between two looks at a child that ends */

static enum status add(struct child_arguments *arguments, const char *first, const char *second,
                       const char *third)
{
    char *text = NULL;
    if (arguments->n == CHILD_ARGUMENTS_MAX || asprintf(&text, "%s%s%s", first, second, third) < 0)
        return STATUS_NO_MEMORY;
    arguments->list[arguments->n++] = text;
    return STATUS_OK;
}

enum status child_arguments_add(struct child_arguments *arguments, const char *flag,
                                const char *value)
{
    return add(arguments, flag, value ? "=" : "", value ? value : "");
}

enum status child_arguments_add_path(struct child_arguments *arguments, const char *path)
{
    return add(arguments, path[0] == '-' ? "./" : "", path, "");
}

enum status child_arguments_add_name(struct child_arguments *arguments, const char *name)
{
    char host[64] = "";
    char text[sizeof host + CHILD_NAME_MAX + 1];
    bool has_host = gethostname(host, sizeof host - 1) == 0 && host[0];
    assert(strlen(name) < CHILD_NAME_MAX);
    snprintf(text, sizeof text, "%s%s%s", host, has_host ? "-" : "", name);
    return child_arguments_add(arguments, "--name", text);
}

void child_arguments_finish(struct child_arguments *arguments)
{
    assert(arguments->n <= CHILD_ARGUMENTS_MAX);
    for (uint32_t i = 0; i < arguments->n; i++)
        free(arguments->list[i]);
    *arguments = (struct child_arguments){0};
}

#define KEY_DESCRIPTOR 3 /* the number of the key's descriptor in a child */

static enum status spawn(struct child *child, int key, char *const *argv, struct error *error)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (key >= 0)
        posix_spawn_file_actions_adddup2(&actions, key, KEY_DESCRIPTOR);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    int failed = posix_spawn(&child->pid, "/proc/self/exe", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) {
        child->pid = 0;
        return error_set(error, STATUS_IO_FAILED, "cannot start %s: %s", child->name,
                         strerror(failed));
    }
    return STATUS_OK;
}

enum status child_start(struct child *child, const char *name, const char *folder, int key,
                        struct child_arguments *arguments, struct error *error)
{
    assert(child->pid == 0 && strlen(name) < CHILD_NAME_MAX);
    *child = (struct child){0};
    snprintf(child->name, sizeof child->name, "%s", name);
    int n = snprintf(child->ports_path, sizeof child->ports_path, "%s/%s.json", folder, name);
    assert(n < (int)sizeof child->ports_path);
    ports_file_remove(child->ports_path); /* from an earlier run */
    char parent[16];
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    TRY(child_arguments_add(arguments, "--ports-file", child->ports_path));
    TRY(child_arguments_add(arguments, "--parent-pid", parent));

    char descriptor[16];
    snprintf(descriptor, sizeof descriptor, "%d", KEY_DESCRIPTOR);
    if (key >= 0)
        TRY(child_arguments_add(arguments, "--cluster-key-fd", descriptor));

    char *argv[CHILD_ARGUMENTS_MAX + 2];
    char program[] = "kvferry";
    assert(arguments->n <= CHILD_ARGUMENTS_MAX);
    argv[0] = program;
    for (uint32_t i = 0; i < arguments->n; i++)
        argv[i + 1] = arguments->list[i];
    argv[arguments->n + 1] = NULL;
    return spawn(child, key, argv, error);
}

bool child_is_running(struct child *child)
{
    assert(child->pid >= 0); /* a negative pid would be a group, or all processes */
    if (child->pid == 0)
        return false;
    int status = 0;
    if (waitpid(child->pid, &status, WNOHANG) != child->pid)
        return true;
    child->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    child->pid = 0;
    return false;
}

bool child_has_ports(struct child *child, bool wants_ready)
{
    return ports_file_read(child->ports_path, &child->ports) == STATUS_OK &&
           (child->ports.is_ready || !wants_ready);
}

void child_signal(const struct child *child, int signal_number)
{
    assert(child->pid >= 0);
    if (child->pid > 0)
        kill(child->pid, signal_number);
}

int child_wait(struct child *child, uint64_t limit_ms)
{
    uint64_t until_ns = clock_now_ns() + limit_ms * NS_PER_MS;
    while (child_is_running(child)) {
        if (clock_now_ns() > until_ns)
            child_signal(child, SIGKILL);
        int signal_number = process_wait_signal(LOOK_MS);
        if (signal_number)
            return signal_number;
    }
    return 0;
}

enum status child_model_check(const char *path, struct error *error)
{
    if (gguf_is(path))
        return STATUS_OK; /* workers read it */
    DIR *folder = opendir(path);
    const int reason = errno; /* the next calls change errno */
    if (!folder)
        return error_set(error, STATUS_IO_FAILED, "%.160s: %s%s", path, strerror(reason),
                         reason == ENOTDIR ? other_format_advice(path) : "");
    closedir(folder);
    return STATUS_OK;
}

/* Tries to make the folder below one that can be written. */
static bool make_folder(const char *parent, char path_out[CHILD_PATH_MAX])
{
    char path[CHILD_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/kvferry.XXXXXX", parent);
    if (n >= (int)sizeof path - CHILD_NAME_MAX - (int)sizeof "/.json" || !mkdtemp(path))
        return false;
    memcpy(path_out, path, sizeof path);
    return true;
}

enum status child_folder_make(char path_out[CHILD_PATH_MAX], struct error *error)
{
    const char *told = getenv("TMPDIR");
    const char *parent = told && told[0] ? told : "/tmp";
    if (strlen(parent) > CHILD_PATH_MAX - CHILD_NAME_MAX - sizeof "/kvferry.XXXXXX/.json")
        return error_set(error, STATUS_INVALID_ARGUMENT, "TMPDIR is too long: %.60s...", parent);
    if (make_folder(parent, path_out))
        return STATUS_OK;
    int reason = errno;
    if (parent != told && make_folder("/dev/shm", path_out)) /* for a read-only root */
        return STATUS_OK;
    return error_set(error, STATUS_IO_FAILED,
                     "cannot make a folder in %.150s: %s; TMPDIR names another place", parent,
                     strerror(reason));
}

void child_folder_remove(const char *path)
{
    DIR *folder = path[0] ? opendir(path) : NULL;
    if (!folder)
        return;
    const struct dirent *entry;
    while ((entry = readdir(folder)))
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    closedir(folder);
    rmdir(path);
}
