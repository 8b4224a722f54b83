#include "cli/serve/serve_key.h"

#include "base/log/log.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A file without a name; children inherit its descriptor. */
static enum status hold(const struct key_set *keys, int *descriptor_out, struct error *error)
{
    char line[KEY_LINE_BYTES];
    int descriptor = memfd_create("kvferry cluster key", MFD_CLOEXEC);
    key_line_format(keys, line);
    assert(strlen(line) > 0 && strlen(line) < sizeof line);
    bool is_held = descriptor >= 0 &&
                   write(descriptor, line, strlen(line)) == (ssize_t)strlen(line);
    explicit_bzero(line, sizeof line);
    if (is_held) {
        *descriptor_out = descriptor;
        return STATUS_OK;
    }
    if (descriptor >= 0)
        close(descriptor);
    return error_set(error, STATUS_IO_FAILED, "cannot store the cluster key: %s", strerror(errno));
}

enum status serve_key_open(struct serve_key *key, const char *path, struct error *error)
{
    struct key_set keys;
    struct error why = {""};
    *key = (struct serve_key){.descriptor = -1};
    if (path[0]) {
        TRY(key_file_read(path, &keys, error));
        key_set_wipe(&keys);
        return STATUS_OK;
    }
    TRY(key_set_draw(&keys, error));
    enum status status = hold(&keys, &key->descriptor, error);
    if (status == STATUS_OK && run_folder_leave(&keys, &key->left, &why) != STATUS_OK)
        log_warn("other commands will not find this run's cluster key: %s", why.text);
    key_set_wipe(&keys);
    return status;
}

void serve_key_tell_ports(const struct serve_key *key, const uint16_t *ports, uint32_t n)
{
    run_folder_tell_ports(&key->left, ports, n);
}

void serve_key_close(struct serve_key *key)
{
    run_folder_take_away(&key->left);
    if (key->descriptor >= 0)
        close(key->descriptor);
    key->descriptor = -1;
}
