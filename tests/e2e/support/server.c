#include "server.h"

#include "command.h"
#include "ports.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void server_start(struct child *server, const char *const *more)
{
    const char *arguments[40] = {"serve", KVFERRY_DEMO_MODEL, ROUTER_PORTS, "--threads", "1"};
    uint32_t n = 14;
    for (; more && *more; more++)
        arguments[n++] = *more;
    child_start(server, command_folder, "serve", arguments);
}

/* 0: it is gone, or a zombie. */
static pid_t parent_of(pid_t pid)
{
    char path[40], state = 'Z';
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*d (%*[^)]) %c %d", &state, &parent) != 2 || state == 'Z' || state == 'X')
        parent = 0;
    fclose(file);
    return parent;
}

bool process_is_alive(pid_t pid)
{
    return parent_of(pid) != 0;
}

static void add_children(pid_t parent, struct server_members *members)
{
    DIR *processes = opendir("/proc");
    cr_assert_not_null(processes);
    const struct dirent *entry;
    while ((entry = readdir(processes))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || parent_of(pid) != parent)
            continue;
        cr_assert_lt(members->n, SERVER_MEMBERS_MAX);
        members->pids[members->n++] = pid;
    }
    closedir(processes);
}

void server_members(pid_t parent, struct server_members *members_out)
{
    *members_out = (struct server_members){0};
    add_children(parent, members_out);
    for (uint32_t i = 0; i < members_out->n; i++)
        add_children(members_out->pids[i], members_out);
}

void expect_all_gone(const struct server_members *members)
{
    for (uint32_t i = 0; i < members->n; i++)
        cr_assert_not(process_is_alive(members->pids[i]), "%d lives", (int)members->pids[i]);
}

size_t read_whole(const char *path, char *text_out, size_t bytes_max)
{
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text_out, 1, bytes_max - 1, file) : 0;
    text_out[n] = '\0';
    if (file)
        fclose(file);
    return n;
}

bool member_ports_file(pid_t pid, const char *role, char path_out[256])
{
    static char arguments[32768];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    size_t n = read_whole(path, arguments, sizeof arguments);
    if (n < 8 || strcmp(arguments + strlen(arguments) + 1, role) != 0)
        return false;
    for (const char *at = arguments; at < arguments + n; at += strlen(at) + 1)
        if (strncmp(at, "--ports-file=", 13) == 0) {
            snprintf(path_out, 256, "%s", at + 13);
            return true;
        }
    return false;
}
