#include "laid_out.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char laid_out_root[64];

void laid_out_make(void)
{
    snprintf(laid_out_root, sizeof laid_out_root, P_tmpdir "/laid-out-XXXXXX");
    cr_assert_not_null(mkdtemp(laid_out_root));
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
    (void)stat, (void)type, (void)walk;
    return remove(path);
}

void laid_out_remove(void)
{
    nftw(laid_out_root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

void laid_out_write(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", laid_out_root, name);
    for (char *slash = path + strlen(laid_out_root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    fputs(text, file);
    fclose(file);
}
