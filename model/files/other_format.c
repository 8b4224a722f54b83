#include "model/files/other_format.h"

#include "base/text.h"
#include "gguf/gguf_file.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char GGUF[] = "; it has a GGUF file: name that file itself as the model";

static const struct format_row {
    const char *name;   /* of a file, or the beginning of one */
    const char *ending; /* NULL: name is the whole file name */
    const char *advice;
} FORMATS[] = {
    {"", ".gguf", GGUF},
    {"adapter_config.json", NULL,
     "; it is an adapter (PEFT), no model: merge it into its base model (merge_and_unload, then "
     "save_pretrained) and serve that"},
    {"params.json", NULL,
     "; it has the makers' own files (params.json, consolidated.*), which are not read: take the "
     "same "
     "model as Transformers stores it"},
    {"consolidated", ".safetensors",
     "; it has the makers' own files (consolidated.safetensors), which are not read: take the same "
     "model as Transformers stores it"},
    {"pytorch_model.bin", NULL, "; pytorch_model.bin is not read: save the model as safetensors"},
    {"pytorch_model.bin.index.json", NULL,
     "; pytorch_model.bin is not read: save the model as safetensors"},
};

static bool is_named(const struct format_row *format, const char *name)
{
    if (!format->ending)
        return strcmp(name, format->name) == 0;
    return strncmp(name, format->name, strlen(format->name)) == 0 &&
           text_ends_with(name, format->ending);
}

/* The index of the first row that matches a file of the folder; the number of rows if none does. */
static size_t first_format(DIR *folder)
{
    size_t first = sizeof FORMATS / sizeof *FORMATS;
    const struct dirent *entry;
    while ((entry = readdir(folder)))
        for (size_t i = 0; i < first; i++)
            if (is_named(&FORMATS[i], entry->d_name))
                first = i;
    return first;
}

const char *other_format_advice(const char *folder)
{
    DIR *opened = opendir(folder);
    if (!opened)
        return gguf_is(folder) ? GGUF : "";
    size_t first = first_format(opened);
    closedir(opened);
    return first < sizeof FORMATS / sizeof *FORMATS ? FORMATS[first].advice : "";
}
