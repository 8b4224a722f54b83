/*
 * cgroup - the cgroups that this process is in: its own, and those above, which all have a say.
 *
 *     /proc/self/cgroup             "0::/pods/one": version 2; "4:cpu,cpuacct:/pods/one": version 1
 *     /sys/fs/cgroup/pods/one       version 2
 *     /sys/fs/cgroup/cpu/pods/one   version 1, a hierarchy each controller
 *
 * Groups that cannot be seen from here, as from inside a container, have no folder; the root of the
 * hierarchy is the container's own then.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cgroup_version { CGROUP_V1, CGROUP_V2 };

typedef void (*cgroup_visit)(void *arg, const char *folder, enum cgroup_version version);

/* Visits the process's group and each above, up to the root of the hierarchy, of version 2 and of the
 * controller's in version 1; whether or not they have a folder. root: "", or a folder in whose proc
 * and sys they are. */
void cgroup_walk(const char *root, const char *controller, cgroup_visit visit, void *arg);

/* False: there is no such file, it is empty, or begins with no number. */
bool cgroup_read_number(const char *folder, const char *name, uint64_t *number_out);
/* At most text_max - 1 bytes, with a NUL. False: there is no such file, or it is empty. */
bool cgroup_read_text(const char *folder, const char *name, char *text_out, size_t text_max);
