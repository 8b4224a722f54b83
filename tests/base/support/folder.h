/* folder - a test's own, and away with it. */
#pragma once

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

/* In TMPDIR: kvferry-NAME-XXXXXX, its path in so many bytes. Asserts. */
static inline void folder_make(char *path_out, size_t room, const char *name)
{
    const char *temporary = getenv("TMPDIR");
    int n = snprintf(path_out, room, "%s/kvferry-%s-XXXXXX", temporary ? temporary : "/tmp", name);
    cr_assert(n > 0 && (size_t)n < room, "TMPDIR is too long");
    cr_assert_not_null(mkdtemp(path_out), "%s", path_out);
}

static inline int folder_remove_entry(const char *path, const struct stat *found, int type,
                                      struct FTW *at)
{
    (void)found, (void)type, (void)at;
    return remove(path);
}

/* With all that is in it; links are not followed. Asserts. */
static inline void folder_remove(const char *path)
{
    cr_assert_eq(nftw(path, folder_remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0, "%s", path);
}
