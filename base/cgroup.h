/*
 * cgroup - the cgroup of this process and those above it, whose limits all apply.
 *
 *     /proc/self/cgroup             "0::/pods/one": version 2; "4:cpu,cpuacct:/pods/one": version 1
 *     /sys/fs/cgroup/pods/one       version 2
 *     /sys/fs/cgroup/cpu/pods/one   version 1: one hierarchy for each controller
 *
 * Groups that are not visible, for example from inside a container, have no folder. Then the root
 * of the hierarchy is the container's own group.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cgroup_version { CGROUP_V1, CGROUP_V2 };

typedef void (*cgroup_visit)(void *arg, const char *folder, enum cgroup_version version);

/* Visits the process's group and each group above it, up to the root, in the hierarchy of version 2
 * and in the controller's hierarchy of version 1, whether or not they have a folder. root: "", or a
 * folder that contains proc and sys. */
void cgroup_walk(const char *root, const char *controller, cgroup_visit visit, void *arg);

/* False: the file does not exist, is empty, or does not begin with a number. */
bool cgroup_read_number(const char *folder, const char *name, uint64_t *number_out);
/* Reads at most text_max - 1 bytes and adds a NUL. False: the file does not exist, or is empty. */
bool cgroup_read_text(const char *folder, const char *name, char *text_out, size_t text_max);
