#include "base/metrics/process_stats.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static enum status read_file(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return STATUS_IO_FAILED;
    size_t got = fread(text, 1, bytes - 1, file);
    fclose(file);
    text[got] = '\0';
    return got > 0 ? STATUS_OK : STATUS_IO_FAILED;
}

/* Fields 14, 15 (CPU ticks), 20 (threads), 22 (start), 23 and 24 (sizes) of proc(5); the name in
 * field 2 may contain any character, so counting starts after the last parenthesis. */
static enum status read_stat(struct process_stats *stats)
{
    char text[1024];
    TRY(read_file("/proc/self/stat", text, sizeof text));
    const char *rest = strrchr(text, ')');
    uint64_t user, system, start, pages;
    if (!rest ||
        sscanf(rest + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
               " %*d %*d %*d %*d %" SCNu64 " %*d %" SCNu64 " %" SCNu64 " %" SCNu64,
               &user, &system, &stats->n_threads, &start, &stats->virtual_bytes, &pages) != 6)
        return STATUS_IO_FAILED;

    double ticks = (double)sysconf(_SC_CLK_TCK);
    stats->cpu_seconds = (double)(user + system) / ticks;
    stats->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    stats->start_seconds = (double)start / ticks; /* since boot; the caller adds the boot time */
    return STATUS_OK;
}

static enum status read_boot_seconds(double *seconds_out)
{
    char text[16384]; /* the intr line is long */
    TRY(read_file("/proc/stat", text, sizeof text));
    const char *line = strstr(text, "\nbtime ");
    return line && sscanf(line, " btime %lf", seconds_out) == 1 ? STATUS_OK : STATUS_IO_FAILED;
}

static enum status count_fds(uint64_t *n_out)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return STATUS_IO_FAILED;
    uint64_t n = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        n += entry->d_name[0] != '.';
    closedir(directory);
    *n_out = n - 1; /* without the descriptor of this listing */
    return STATUS_OK;
}

/* proc(5), status: a line "RssAnon:     156 kB". */
static bool find_kib(const char *text, const char *name, uint64_t *kib_out)
{
    const char *line = strstr(text, name);
    return line && sscanf(line + strlen(name), " %" SCNu64 " kB", kib_out) == 1;
}

enum status process_own_bytes(uint64_t *bytes_out)
{
    char text[8192];
    uint64_t anonymous, shared;
    TRY(read_file("/proc/self/status", text, sizeof text));
    if (!find_kib(text, "\nRssAnon:", &anonymous) || !find_kib(text, "\nRssShmem:", &shared))
        return STATUS_IO_FAILED;
    *bytes_out = (anonymous + shared) * 1024;
    return STATUS_OK;
}

enum status process_stats_read(struct process_stats *stats_out)
{
    struct process_stats stats;
    double boot_seconds = 0;
    struct rlimit limit;
    TRY(read_stat(&stats));
    TRY(read_boot_seconds(&boot_seconds));
    TRY(count_fds(&stats.open_fds));
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return STATUS_IO_FAILED;

    stats.fds_max = limit.rlim_cur;
    stats.start_seconds += boot_seconds;
    *stats_out = stats;
    return STATUS_OK;
}
