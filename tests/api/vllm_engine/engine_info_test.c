/* engine_info: a gateway is told the defaults of the model that differ from its own, as JSON. */
#include "api/vllm_engine/engine_info.h"
#include "router/requests/generation_defaults.h"

#include <criterion/criterion.h>
#include <jansson.h>

Test(engine_info, defaults_that_change_nothing_are_not_told)
{
    char text[ENGINE_DEFAULTS_MAX];
    const struct generation_defaults plain = {
        .temperature = 1, .top_p = 1, .repetition_penalty = 1, .typical_p = 1};
    engine_info_defaults(&plain, text);
    cr_expect_str_eq(text, "");
}

Test(engine_info, the_others_are_numbers_as_the_model_has_them)
{
    char text[ENGINE_DEFAULTS_MAX];
    const struct generation_defaults own = {
        .temperature = 0.6f, .top_k = 20, .top_p = 0.95f, .repetition_penalty = 1, .typical_p = 1};
    engine_info_defaults(&own, text);
    cr_expect_str_eq(text, "{\"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 20}");
    json_t *root = json_loads(text, 0, NULL);
    cr_expect_not_null(root);
    json_decref(root);
}

Test(engine_info, the_longest_has_room)
{
    char text[ENGINE_DEFAULTS_MAX];
    const struct generation_defaults most = {.temperature = 1.23456e-30f,
                                             .top_k = INT32_MAX,
                                             .top_p = 1.23456e-30f,
                                             .repetition_penalty = 1.23456e-30f,
                                             .typical_p = 1};
    engine_info_defaults(&most, text);
    json_t *root = json_loads(text, 0, NULL);
    cr_assert_not_null(root, "%s", text);
    cr_expect_eq(json_object_size(root), 4);
    json_decref(root);
}
