/* engine_model: ids come from the folder's files however they are written; what is no id is left out, what is no JSON refused. */
#include "api/engine/engine_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/kvferry-engine-model-XXXXXX";

static void begin(void)
{
    cr_assert_not_null(mkdtemp(folder));
}

static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void end(void)
{
    char path[128];
    static const char *const NAMES[] = {"config.json", "generation_config.json"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
        (void)unlink(path);
    }
    rmdir(folder);
}

TestSuite(engine_model, .init = begin, .fini = end);

static struct engine_model read_model(void)
{
    struct engine_model model;
    struct error error = {""};
    cr_assert_eq(engine_model_read(folder, &model, &error), STATUS_OK, "%s", error.text);
    return model;
}

Test(engine_model, an_empty_folder_tells_nothing)
{
    struct engine_model model = read_model();
    cr_expect_str_eq(model.type, "");
    cr_expect_eq(model.n_eos, 0);
    cr_expect_not(engine_model_is_eos(&model, 0));
}

Test(engine_model, ids_of_the_generation_config_go_before)
{
    write_file("config.json",
               "{\"model_type\": \"qwen3\", \"eos_token_id\": 5, \"bos_token_id\": 7}");
    struct engine_model model = read_model();
    cr_expect_str_eq(model.type, "qwen3");
    cr_expect_eq(model.n_eos, 1);
    cr_expect(engine_model_is_eos(&model, 5));
    cr_expect_eq(model.pad_id, 5, "without one of its own");
    write_file("generation_config.json", "{\"eos_token_id\": [8, 9, 8], \"pad_token_id\": 3}");
    model = read_model();
    cr_expect_eq(model.n_eos, 2);
    cr_expect(engine_model_is_eos(&model, 8) && engine_model_is_eos(&model, 9));
    cr_expect_not(engine_model_is_eos(&model, 5));
    cr_expect_eq(model.bos_id, 7);
    cr_expect_eq(model.pad_id, 3);
}

Test(engine_model, what_is_no_id_is_left_out)
{
    write_file("config.json",
               "{\"model_type\": 5, \"eos_token_id\": [null, -1, 1.5, \"a\", 4294967296, 2, "
               "[3]], \"bos_token_id\": null, \"x\": 1e999}");
    struct error error = {""};
    struct engine_model model;
    cr_expect_eq(engine_model_read(folder, &model, &error), STATUS_CORRUPT, "1e999 is no number");
    write_file("config.json",
               "{\"model_type\": 5, \"eos_token_id\": [null, -1, 1.5, \"a\", 4294967296, 2, "
               "[3]], \"x\": 1000000000000000019884624838656}");
    model = read_model();
    cr_expect_str_eq(model.type, "");
    cr_expect_eq(model.n_eos, 1);
    cr_expect(engine_model_is_eos(&model, 2));
}

Test(engine_model, more_ids_than_there_is_room_for_are_cut)
{
    char text[512] = "{\"eos_token_id\": [0";
    for (int i = 1; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), ",%d", i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "]}");
    write_file("generation_config.json", text);
    struct engine_model model = read_model();
    cr_expect_eq(model.n_eos, ENGINE_EOS_MAX);
}

Test(engine_model, a_broken_file_is_named)
{
    struct error error = {""};
    struct engine_model model;
    write_file("config.json", "[]");
    cr_expect_eq(engine_model_read(folder, &model, &error), STATUS_CORRUPT);
    cr_expect(strstr(error.text, "config.json"), "%s", error.text);
    write_file("config.json", "{}");
    write_file("generation_config.json", "{");
    cr_expect_eq(engine_model_read(folder, &model, &error), STATUS_CORRUPT);
    cr_expect(strstr(error.text, "generation_config.json"), "%s", error.text);
}
