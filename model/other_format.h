/*
 * other_format - what a folder or file is that is no model as Transformers stores it.
 *
 *     GGUF                                     a file, or files in the folder
 *     params.json, consolidated.*              the makers' own files of Llama and Mistral
 *     adapter_config.json                      an adapter (PEFT), which changes another model
 *     pytorch_model.bin                        weights as pickled Python
 *
 * Looked at when the files that are read are not there.
 *
 * Thread: any.
 */
#pragma once

/* The rest of a sentence, "; ..." with what to do; "" when it is none of these. A literal. */
const char *other_format_advice(const char *folder);
