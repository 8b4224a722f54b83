/* adapter_file: what was read stays, whatever becomes of the file, which may be replaced while a worker serves. */
#include "model/adapter/adapter_file.h"
#include "tests/model/support/broken_folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LLAMA KVFERRY_SOURCE_DIR "/tests/golden/adapters/llama"
#define Q_A   "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"

Test(adapter_file, a_file_that_is_cut_meanwhile_ends_no_process)
{
    struct broken_folder folder;
    struct adapter_file file;
    struct error error = {""};
    enum dtype dtype;
    char path[600];
    broken_folder_make(&folder, LLAMA, NOTHING, "");
    snprintf(path, sizeof path, "%s/" ADAPTER_FILE, folder.path);
    cr_assert_eq(adapter_file_open(folder.path, UINT64_MAX, &error, &file), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(truncate(path, 0), 0);
    const struct safetensor *tensor = adapter_file_find(&file, Q_A);
    cr_assert_not_null(tensor);
    cr_assert_eq(adapter_file_check(tensor, 4, 32, &error, &dtype), STATUS_OK, "%s", error.text);
    adapter_file_close(&file);
    broken_folder_remove(&folder);
}

Test(adapter_file, one_that_is_larger_than_the_bound_is_refused)
{
    struct adapter_file file;
    struct error error = {""};
    cr_assert_neq(adapter_file_open(LLAMA, 1000, &error, &file), STATUS_OK);
    cr_assert(strstr(error.text, "1000"), "%s", error.text);
}
