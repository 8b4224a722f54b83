/*
 * broken_folder - a copy of a model folder in a temporary place, with one thing changed.
 *
 *     what             argument
 *     CONFIG_SET       JSON object merged into config.json
 *     CONFIG_REMOVE    a key
 *     FILE_TEXT        "name=whole new text"
 *     FILE_REMOVE      a name
 *     FILE_CUT         "name=n": only the first n bytes stay; n < 0: so many go from the end
 *     FILE_APPEND      "name=text"
 *     FILE_LINK        "name=target": a symbolic link in place of the file; ~ stands for the folder
 *     FILE_FIFO        a name
 *     HEADER_SET       JSON object merged into the header of model.safetensors (the data stays)
 *     HEADER_REMOVE    a tensor's name: its data becomes a hole
 *     HEADER_TEXT      the whole header
 *     HEADER_LENGTH    the number in front of it
 *     TENSOR_ADD       JSON {name: dtype}: one more tensor of one element behind the others
 *     TENSOR_COPY      "new=name": one more tensor, with the type, shape and bytes of that one
 *     TENSOR_SET       "name=n=value": element n of a BF16 or F32 tensor
 *     TENSOR_STRIP     what the names of tensors that begin with it lose
 *     TENSOR_FLIP      a tensor's name: one bit in the middle of it
 *     SHARDS           a number: so many files and an index in place of one, tensors the other way round
 *     INDEX_SET        JSON object merged into weight_map
 *     INDEX_REMOVE     a tensor's name
 */
#pragma once

enum broken_what {
    NOTHING,
    CONFIG_SET,
    CONFIG_REMOVE,
    FILE_TEXT,
    FILE_REMOVE,
    FILE_CUT,
    FILE_APPEND,
    FILE_LINK,
    FILE_FIFO,
    HEADER_SET,
    HEADER_REMOVE,
    HEADER_TEXT,
    HEADER_LENGTH,
    TENSOR_ADD,
    TENSOR_COPY,
    TENSOR_SET,
    TENSOR_STRIP,
    TENSOR_FLIP,
    SHARDS,
    INDEX_SET,
    INDEX_REMOVE,
};

struct broken_folder {
    char path[256];
};

/* original may be as large as the demo model. */
void broken_folder_make(struct broken_folder *folder, const char *original, enum broken_what what,
                        const char *argument);
/* One thing more. */
void broken_folder_edit(const struct broken_folder *folder, enum broken_what what,
                        const char *argument);
/* In the folder place, for each of its files NAME, a symbolic link NAME -> towards/NAME. */
void broken_folder_link_all(const struct broken_folder *folder, const char *place,
                            const char *towards);
void broken_folder_remove(struct broken_folder *folder);
