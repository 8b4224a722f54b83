#include "base/config/config_yaml.h"

#include "base/config/config.h"
#include "base/regular_file.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    const char *path;
    config_yaml_entry entry;
    void *arg;
    struct error *error;
    yaml_parser_t parser;
    char *key;    /* the one whose value comes next */
    bool is_list; /* in its list */
};

static enum status corrupt(struct reader *reader, size_t line, const char *what)
{
    return error_set(reader->error, STATUS_CORRUPT, "%s:%zu: %s", reader->path, line + 1, what);
}

/* Of the value of the key, if one was read. */
static enum status corrupt_value(struct reader *reader, size_t line, const char *what)
{
    if (!reader->key)
        return corrupt(reader, line, what);
    return error_set(reader->error, STATUS_CORRUPT, "%s:%zu: %s: %s", reader->path, line + 1,
                     reader->key, what);
}

static enum status next_event(struct reader *reader, yaml_event_t *event_out)
{
    yaml_parser_t *parser = &reader->parser;
    if (yaml_parser_parse(parser, event_out))
        return STATUS_OK;
    if (parser->error == YAML_MEMORY_ERROR)
        return STATUS_NO_MEMORY;
    return corrupt(reader, parser->problem_mark.line,
                   parser->problem ? parser->problem : "cannot be read as YAML");
}

static enum status say(struct reader *reader, enum config_yaml_kind kind, const yaml_event_t *event)
{
    assert(reader->key);
    const struct config_yaml_item item = {
        .kind = kind,
        .key = reader->key,
        .text = kind == CONFIG_YAML_LIST_BEGIN ? NULL : (const char *)event->data.scalar.value,
        .line = (uint32_t)event->start_mark.line + 1,
    };
    return reader->entry(reader->arg, &item, reader->error);
}

static void forget_key(struct reader *reader)
{
    free(reader->key);
    reader->key = NULL;
}

static enum status on_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    assert(!reader->is_list || reader->key);
    if (strlen(text) != event->data.scalar.length)
        return corrupt_value(reader, event->start_mark.line, "a zero byte");
    if (event->data.scalar.anchor)
        return corrupt_value(reader, event->start_mark.line, "anchors are not supported");
    if (reader->is_list)
        return say(reader, CONFIG_YAML_LIST_TEXT, event);
    if (!reader->key) {
        reader->key = strdup(text);
        return reader->key ? STATUS_OK : STATUS_NO_MEMORY;
    }

    enum status status = say(reader, CONFIG_YAML_SCALAR, event);
    forget_key(reader);
    return status;
}

static enum status on_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(reader, event);
    case YAML_SEQUENCE_START_EVENT:
        if (!reader->key || reader->is_list)
            break;
        reader->is_list = true;
        return say(reader, CONFIG_YAML_LIST_BEGIN, event);
    case YAML_SEQUENCE_END_EVENT:
        reader->is_list = false;
        forget_key(reader);
        return STATUS_OK;
    case YAML_MAPPING_END_EVENT:
        return STATUS_OK;
    default:
        break;
    }
    return corrupt_value(reader, event->start_mark.line, "expected a plain value, nothing nested");
}

/* Everything between the start and the end of the one mapping. */
static enum status read_mapping(struct reader *reader)
{
    for (;;) {
        yaml_event_t event;
        TRY(next_event(reader, &event));

        yaml_event_type_t type = event.type;
        enum status status = on_event(reader, &event);
        yaml_event_delete(&event);
        if (status != STATUS_OK || type == YAML_MAPPING_END_EVENT)
            return status;
    }
}

static enum status read_stream(struct reader *reader)
{
    for (int n_mappings = 0;;) {
        yaml_event_t event;
        TRY(next_event(reader, &event));
        yaml_event_type_t type = event.type;
        size_t line = event.start_mark.line;
        bool is_empty = type == YAML_SCALAR_EVENT && event.data.scalar.length == 0;
        yaml_event_delete(&event);

        if (type == YAML_STREAM_END_EVENT)
            return STATUS_OK;
        if (type == YAML_STREAM_START_EVENT || type == YAML_DOCUMENT_START_EVENT ||
            type == YAML_DOCUMENT_END_EVENT || is_empty)
            continue;
        if (type != YAML_MAPPING_START_EVENT || n_mappings++ > 0)
            return corrupt(reader, line, "expected one mapping of keys to values");
        TRY(read_mapping(reader));
    }
}

enum status config_yaml_read(const char *path, config_yaml_entry entry, void *arg,
                             struct error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    TRY(regular_file_read(path, CONFIG_FILE_BYTES_MAX, &text, &bytes, error));

    struct reader reader = {.path = path, .entry = entry, .arg = arg, .error = error};
    enum status status = STATUS_NO_MEMORY;
    if (yaml_parser_initialize(&reader.parser)) {
        yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, bytes);
        status = read_stream(&reader);
        yaml_parser_delete(&reader.parser);
    }
    free(reader.key);
    free(text);
    return status;
}
