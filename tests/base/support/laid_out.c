#include "laid_out.h"

#include "folder.h"

#include <criterion/criterion.h>
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

void laid_out_remove(void)
{
    folder_remove(laid_out_root);
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

void laid_out_write_cpu(uint32_t cpu, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "sys/devices/system/cpu/cpu%u/%s", cpu, name);
    laid_out_write(path, text);
}

void laid_out_write_siblings(uint32_t cpu, uint32_t a, uint32_t b)
{
    char text[32];
    snprintf(text, sizeof text, "%u,%u\n", a, b);
    laid_out_write_cpu(cpu, "topology/thread_siblings_list", text);
}
