#include "base/cgroup.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define HOME "/sys/fs/cgroup"

bool cgroup_read_text(const char *folder, const char *name, char *text_out, size_t text_max)
{
    assert(text_max > 0);
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t n = fread(text_out, 1, text_max - 1, file);
    fclose(file);
    text_out[n] = '\0';
    return n > 0;
}

bool cgroup_read_number(const char *folder, const char *name, uint64_t *number_out)
{
    char text[64];
    return cgroup_read_text(folder, name, text, sizeof text) &&
           sscanf(text, "%" SCNu64, number_out) == 1;
}

/* home: the hierarchy's folder. path: the group's path in /proc/self/cgroup. */
static void walk_up(const char *home, const char *path, enum cgroup_version version,
                    cgroup_visit visit, void *arg)
{
    char folder[PATH_MAX];
    size_t n_home = strlen(home);
    if (snprintf(folder, sizeof folder, "%s%s", home, path) >= PATH_MAX)
        return;
    for (;;) {
        visit(arg, folder, version);
        char *slash = strrchr(folder, '/');
        if (slash < folder + n_home)
            return;
        *slash = '\0';
    }
}

static bool has_controller(const char *list, const char *wanted)
{
    size_t n = strlen(wanted);
    for (; list; list = strchr(list, ',')) {
        list += *list == ',';
        if (strncmp(list, wanted, n) == 0 && (list[n] == ',' || list[n] == '\0'))
            return true;
    }
    return false;
}

void cgroup_walk(const char *root, const char *controller, cgroup_visit visit, void *arg)
{
    char text[8192], home[PATH_MAX];
    char *rest = NULL;
    if (snprintf(home, sizeof home, "%s/proc/self", root) >= PATH_MAX ||
        !cgroup_read_text(home, "cgroup", text, sizeof text))
        return;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        bool is_v2 = strcmp(line, "0:") == 0;
        if (!is_v2 && !has_controller(controllers + 1, controller))
            continue;
        if (snprintf(home, sizeof home, "%s" HOME "%s%s", root, is_v2 ? "" : "/",
                     is_v2 ? "" : controller) < PATH_MAX)
            walk_up(home, path, is_v2 ? CGROUP_V2 : CGROUP_V1, visit, arg);
    }
}
