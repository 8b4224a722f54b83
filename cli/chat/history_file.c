#include "cli/chat/history_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each folder of path that is missing. path is changed meanwhile. */
static bool make_folders(char *path)
{
    assert(path[0] == '/');
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        bool is_there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *at = '/';
        if (!is_there)
            return false;
    }
    return true;
}

enum status history_file_path(char path_out[PATH_MAX], struct error *error)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool has_state = state && state[0] == '/', has_home = home && home[0] == '/';
    if (!has_state && !has_home)
        return error_set(error, STATUS_NOT_FOUND,
                         "there is no history file: neither XDG_STATE_HOME nor HOME is a folder");
    int n = snprintf(path_out, PATH_MAX, "%s%s/kvferry/chat_history", has_state ? state : home,
                     has_state ? "" : "/.local/state");
    if (n >= PATH_MAX)
        return error_set(error, STATUS_IO_FAILED, "the name of the history file is too long");
    if (!make_folders(path_out))
        return error_set(error, STATUS_IO_FAILED, "cannot make the folder of %.160s: %s", path_out,
                         strerror(errno));
    return STATUS_OK;
}

enum status history_file_read(const char *path, History *lines, struct error *error)
{
    struct stat about;
    HistEvent event;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 && errno == ENOENT)
        return STATUS_OK;
    bool is_known = file >= 0 && fstat(file, &about) == 0;
    int reason = errno;
    if (file >= 0)
        close(file);
    if (!is_known)
        return error_set(error, STATUS_IO_FAILED, "cannot read %.160s: %s", path, strerror(reason));
    if (!S_ISREG(about.st_mode) || about.st_size > HISTORY_FILE_BYTES_MAX)
        return error_set(error, STATUS_PROMPT_TOO_LONG,
                         "%.160s is no file of at most %u bytes: it is not read", path,
                         HISTORY_FILE_BYTES_MAX);
    if (about.st_size > 0 && history(lines, &event, H_LOAD, path) < 0)
        return error_set(error, STATUS_CORRUPT, "%.160s is no history of a chat", path);
    return STATUS_OK;
}

enum status history_file_write(const char *path, History *lines, struct error *error)
{
    HistEvent event;
    char beside[PATH_MAX];
    if (snprintf(beside, sizeof beside, "%s.XXXXXX", path) >= (int)sizeof beside)
        return error_set(error, STATUS_IO_FAILED, "the name of the history file is too long");
    int descriptor = mkostemp(beside, O_CLOEXEC); /* mode 0600 */
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    bool is_written = file && history(lines, &event, H_SAVE_FP, file) >= 0;
    int reason = errno;
    if (file && fclose(file) != 0)
        is_written = false;
    else if (!file && descriptor >= 0)
        close(descriptor);
    if (is_written && rename(beside, path) == 0)
        return STATUS_OK;
    if (is_written)
        reason = errno;
    if (descriptor >= 0)
        (void)unlink(beside);
    return error_set(error, STATUS_IO_FAILED, "cannot write %.160s: %s", path, strerror(reason));
}
