/*
 * other_format - recognizes folders and files in other formats than the one of Transformers.
 *
 *     GGUF                                     a file, or files in the folder
 *     params.json, consolidated.*              the original files of Llama and Mistral
 *     adapter_config.json                      an adapter (PEFT), which changes another model
 *     pytorch_model.bin                        weights as pickled Python
 *
 * Used when the expected files are missing.
 *
 * Thread: any.
 */
#pragma once

/* The end of an error sentence, "; ..." with advice; "" if it is none of these formats. A literal. */
const char *other_format_advice(const char *folder);
