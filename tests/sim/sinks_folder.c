#include "tests/sim/sinks_folder.h"

#include "tests/sim/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *read_file(const char *folder, const char *name, size_t *n_out)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        abort();
    const size_t n = (size_t)ftell(file);
    char *bytes = calloc(1, n + 1);
    rewind(file);
    if (!bytes || fread(bytes, 1, n, file) != n || fclose(file) != 0)
        abort();
    *n_out = n;
    return bytes;
}

static FILE *new_file(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file)
        abort();
    return file;
}

void sinks_folder_make(const char *folder, char path_out[SINKS_PATH_MAX])
{
    static const char KEY[] = "\"max_position_embeddings\": 128";
    size_t n_config, n_weights;
    char *config = read_file(folder, "config.json", &n_config);
    char *weights = read_file(folder, "model.safetensors", &n_weights);
    const char *at = strstr(config, KEY);
    snprintf(path_out, SINKS_PATH_MAX, "/tmp/sim_sinks_XXXXXX");
    if (!at || !mkdtemp(path_out))
        abort();
    FILE *file = new_file(path_out, "config.json");
    fprintf(file, "%.*s\"max_position_embeddings\": %u%s", (int)(at - config), config,
            ORACLE_SINKS_CONTEXT, at + sizeof KEY - 1);
    if (fclose(file) != 0)
        abort();
    file = new_file(path_out, "model.safetensors");
    if (fwrite(weights, 1, n_weights, file) != n_weights || fclose(file) != 0)
        abort();
    free(config);
    free(weights);
}

void sinks_folder_remove(const char *folder)
{
    char path[128];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "model.safetensors" : "config.json");
        (void)unlink(path);
    }
    (void)rmdir(folder);
}
