/* folder - takes away a folder that a test made. */
#pragma once

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>

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
