/*
 * family_readers - what a row of families.c cannot say: each reads the keys of config.json that only its family has.
 *
 * Called when sizes, switches and the row's decoder are in the config, before windows and rotations are.
 * CORRUPT, UNSUPPORTED: the sentence names key and value.
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/json_fields.h"

MUST_CHECK enum status family_read_gemma(const struct json_fields *fields,
                                         struct model_config *config);
MUST_CHECK enum status family_read_gemma2(const struct json_fields *fields,
                                          struct model_config *config);
MUST_CHECK enum status family_read_gemma3(const struct json_fields *fields,
                                          struct model_config *config);
MUST_CHECK enum status family_read_gemma4_unified(const struct json_fields *fields,
                                                  struct model_config *config);
MUST_CHECK enum status family_read_gemma4(const struct json_fields *fields,
                                          struct model_config *config);
MUST_CHECK enum status family_read_olmo(const struct json_fields *fields,
                                        struct model_config *config);
MUST_CHECK enum status family_read_granite(const struct json_fields *fields,
                                           struct model_config *config);
MUST_CHECK enum status family_read_cohere(const struct json_fields *fields,
                                          struct model_config *config);
MUST_CHECK enum status family_read_cohere2(const struct json_fields *fields,
                                           struct model_config *config);
MUST_CHECK enum status family_read_stablelm(const struct json_fields *fields,
                                            struct model_config *config);
MUST_CHECK enum status family_read_phi(const struct json_fields *fields,
                                       struct model_config *config);
MUST_CHECK enum status family_read_gpt2(const struct json_fields *fields,
                                        struct model_config *config);
MUST_CHECK enum status family_read_gpt_neox(const struct json_fields *fields,
                                            struct model_config *config);
MUST_CHECK enum status family_read_opt(const struct json_fields *fields,
                                       struct model_config *config);
MUST_CHECK enum status family_read_bloom(const struct json_fields *fields,
                                         struct model_config *config);
MUST_CHECK enum status family_read_falcon(const struct json_fields *fields,
                                          struct model_config *config);
MUST_CHECK enum status family_read_mpt(const struct json_fields *fields,
                                       struct model_config *config);
MUST_CHECK enum status family_read_deepseek_v2(const struct json_fields *fields,
                                               struct model_config *config);
MUST_CHECK enum status family_read_deepseek_v3(const struct json_fields *fields,
                                               struct model_config *config);
MUST_CHECK enum status family_read_mixtral(const struct json_fields *fields,
                                           struct model_config *config);
MUST_CHECK enum status family_read_granite_moe(const struct json_fields *fields,
                                               struct model_config *config);
MUST_CHECK enum status family_read_qwen2_moe(const struct json_fields *fields,
                                             struct model_config *config);
MUST_CHECK enum status family_read_qwen_next(const struct json_fields *fields,
                                             struct model_config *config);
MUST_CHECK enum status family_read_qwen3_5(const struct json_fields *fields,
                                           struct model_config *config);
MUST_CHECK enum status family_read_qwen3_5_moe(const struct json_fields *fields,
                                               struct model_config *config);
MUST_CHECK enum status family_read_qwen3_moe(const struct json_fields *fields,
                                             struct model_config *config);
MUST_CHECK enum status family_read_olmoe(const struct json_fields *fields,
                                         struct model_config *config);
MUST_CHECK enum status family_read_ministral3(const struct json_fields *fields,
                                              struct model_config *config);
MUST_CHECK enum status family_read_gpt_oss(const struct json_fields *fields,
                                           struct model_config *config);
