/*
 * gguf_files - a GGUF file as the text files of a model folder: config.json, tokenizer.json, tokenizer_config.json.
 *
 * After gguf_files_init, base/regular_file takes the path of a GGUF file for a folder that holds them.
 *
 * Thread: init before other threads run; the files: any.
 */
#pragma once

void gguf_files_init(void);
