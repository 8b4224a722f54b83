/* attention_windows: a list is repeated over the layers; another window than the model's needs force. */
#include "model/config/attention_windows.h"

#include <criterion/criterion.h>
#include <string.h>

/* Five layers of a context of 128 tokens; every other one has a window of 32. */
static struct model_config model(void)
{
    struct model_config config = {.n_layers = 5, .context_tokens = 128};
    config.windows[0] = config.windows[2] = config.windows[4] = 32;
    return config;
}

static enum status set(const char *text, bool is_forced, struct model_config *config,
                       struct error *error)
{
    *config = model();
    *error = (struct error){""};
    return attention_windows_set(text, is_forced, config, error);
}

static void expect(const char *text, bool is_forced, const uint32_t windows[5])
{
    struct model_config config;
    struct error error;
    cr_assert_eq(set(text, is_forced, &config, &error), STATUS_OK, "%s", error.text);
    cr_assert_arr_eq(config.windows, windows, 5 * sizeof *windows, "\"%s\"", text);
}

Test(attention_windows, a_list_is_repeated_over_the_layers)
{
    expect("16", true, (const uint32_t[]){16, 16, 16, 16, 16});
    expect("16,0", true, (const uint32_t[]){16, 0, 16, 0, 16});
    expect("1,2,3", true, (const uint32_t[]){1, 2, 3, 1, 2});
    expect("5,4,3,2,1", true, (const uint32_t[]){5, 4, 3, 2, 1});
    expect("1073741824", true,
           (const uint32_t[]){1u << 30, 1u << 30, 1u << 30, 1u << 30, 1u << 30});
}

Test(attention_windows, what_the_model_was_made_with_needs_no_force)
{
    expect("", false, (const uint32_t[]){32, 0, 32, 0, 32});
    expect("32,0", false, (const uint32_t[]){32, 0, 32, 0, 32});
    expect("32,128", false, (const uint32_t[]){32, 128, 32, 128, 32}); /* it hides nothing */
}

Test(attention_windows, another_window_is_refused_with_layer_and_values)
{
    struct model_config config;
    struct error error;
    cr_assert_eq(set("32,64", false, &config, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "attention_window gives layer 1 a window of 64 tokens; the model "
                                 "was made with 0 (0: all)"),
              "%s", error.text);
    cr_assert_eq(config.windows[1], 0, "nothing changed");
    cr_assert_eq(set("0", false, &config, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "layer 0 a window of 0 tokens; the model was made with 32"), "%s",
              error.text);
    cr_assert_eq(set("48,0", false, &config, &error), STATUS_INVALID_ARGUMENT);
}

/* Blocks behind the shorter window would be gone. */
Test(attention_windows, a_layer_that_reads_another_has_its_window)
{
    struct model_config config = {.n_layers = 4, .context_tokens = 128};
    struct error error = {""};
    for (uint32_t layer = 0; layer < 4; layer++)
        config.windows[layer] = 32;
    config.kv_back[3] = 2;
    cr_assert_eq(attention_windows_set("16,8,16", true, &config, &error), STATUS_UNSUPPORTED);
    cr_assert_str_eq(error.text,
                     "attention_window gives layer 3 a window of 16 tokens, but it reads "
                     "K and V of layer 1, which has 8");
    cr_assert_eq(config.windows[1], 32);
    cr_assert_eq(attention_windows_set("16,8", true, &config, &error), STATUS_OK);
    cr_assert_eq(config.windows[3], 8);
}

Test(attention_windows, what_is_no_list_of_numbers_is_refused)
{
    static const char *const BAD[] = {
        "x",    "-1",         "+1",  ",",   "1,",         ",1",
        "1,,2", "1 ",         " 1",  "1;2", "1.5",        "0x10",
        "1e3",  "1073741825", "1,a", "NaN", "4294967296", "99999999999999999999",
        "1,-2", "\xff"};
    struct model_config config;
    struct error error;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        cr_assert_eq(set(BAD[i], true, &config, &error), STATUS_INVALID_ARGUMENT, "\"%s\"", BAD[i]);
        cr_assert(strstr(error.text, "attention_window is \""), "%s", error.text);
        cr_assert_eq(config.windows[0], 32);
    }
    cr_assert_eq(set("1,2,3,4,5,6", true, &config, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "more numbers than the model's 5 layers"), "%s", error.text);
}
