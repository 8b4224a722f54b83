#include "tests/base/support/config_sample.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CONFIG_DEFINE(sample_config, SAMPLE_CONFIG, SAMPLE_ALIASES)

void config_sample_write(struct loaded *loaded, const char *text)
{
    snprintf(loaded->path, sizeof loaded->path, "%s/config-XXXXXX", P_tmpdir);
    int fd = mkstemp(loaded->path);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

enum status load(const struct given *given, struct loaded *loaded)
{
    int argc = 0;
    memset(loaded, 0, sizeof *loaded);
    if (given->yaml) {
        config_sample_write(loaded, given->yaml);
        loaded->arguments[argc++] = "--config";
        loaded->arguments[argc++] = loaded->path;
    }
    for (int i = 0; given->arguments[i]; i++)
        loaded->arguments[argc++] = (char *)given->arguments[i];

    const struct config_input input = {.command = "kvferry sample",
                                       .usage = given->usage,
                                       .program = given->program,
                                       .argc = argc,
                                       .argv = loaded->arguments,
                                       .environment = (char *const *)given->environment};
    enum status status = config_load(sample_config_table(), &input, &loaded->values,
                                     &loaded->config, &loaded->error);
    if (given->yaml)
        unlink(loaded->path);
    return status;
}

void load_ok(const struct given *given, struct loaded *loaded)
{
    enum status status = load(given, loaded);
    cr_assert_eq(status, STATUS_OK, "%s", loaded->error.text);
}
