#include "api/vllm_engine/zip_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LOCAL_BYTES    30u
#define CENTRAL_BYTES  46u
#define END_BYTES      22u
#define VERSION        10u     /* 1.0: stored */
#define DATE_1980      0x0021u /* 1 January: the first date that the format has */
#define CRC_POLYNOMIAL 0xedb88320u

static uint32_t crc32_of(const uint8_t *bytes, size_t n)
{
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ CRC_POLYNOMIAL : crc >> 1;
        table[i] = crc;
    }
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ bytes[i]) & 0xff];
    return ~crc;
}

static enum status make_room(struct zip_file *zip, size_t n)
{
    if (n > UINT32_MAX || zip->n_bytes + n > UINT32_MAX)
        return STATUS_INVALID_ARGUMENT;
    if (zip->n_bytes + n <= zip->room)
        return STATUS_OK;
    size_t room = zip->room ? zip->room : 4096;
    while (room < zip->n_bytes + n)
        room *= 2;
    uint8_t *larger = realloc(zip->bytes, room);
    if (!larger)
        return STATUS_NO_MEMORY;
    zip->bytes = larger;
    zip->room = room;
    return STATUS_OK;
}

/* There is room. */
static void put(struct zip_file *zip, const void *data, size_t n)
{
    assert(zip->n_bytes + n <= zip->room);
    if (n > 0)
        memcpy(zip->bytes + zip->n_bytes, data, n);
    zip->n_bytes += n;
}

static void put16(struct zip_file *zip, uint32_t value)
{
    const uint8_t bytes[] = {(uint8_t)value, (uint8_t)(value >> 8)};
    put(zip, bytes, sizeof bytes);
}

static void put32(struct zip_file *zip, uint32_t value)
{
    put16(zip, value & 0xffff);
    put16(zip, value >> 16);
}

/* What both headers of an entry have in the same order. */
static void put_common(struct zip_file *zip, const struct zip_entry *entry)
{
    put16(zip, VERSION);
    put16(zip, 0); /* flags */
    put16(zip, 0); /* stored */
    put16(zip, 0); /* midnight */
    put16(zip, DATE_1980);
    put32(zip, entry->crc);
    put32(zip, entry->n_bytes);
    put32(zip, entry->n_bytes);
    put16(zip, (uint32_t)strlen(entry->name));
    put16(zip, 0); /* extra */
}

enum status zip_file_add(struct zip_file *zip, const char *name, const void *data, size_t n_bytes)
{
    size_t name_bytes = strlen(name);
    if (zip->n_entries == ZIP_ENTRIES_MAX || name_bytes >= ZIP_NAME_MAX || n_bytes > UINT32_MAX)
        return STATUS_INVALID_ARGUMENT;
    TRY(make_room(zip, LOCAL_BYTES + name_bytes + n_bytes));
    struct zip_entry *entry = &zip->entries[zip->n_entries++];
    memcpy(entry->name, name, name_bytes + 1);
    entry->crc = crc32_of(data, n_bytes);
    entry->n_bytes = (uint32_t)n_bytes;
    entry->at = (uint32_t)zip->n_bytes;
    put32(zip, 0x04034b50);
    put_common(zip, entry);
    put(zip, name, name_bytes);
    put(zip, data, n_bytes);
    return STATUS_OK;
}

enum status zip_file_end(struct zip_file *zip)
{
    const uint32_t at = (uint32_t)zip->n_bytes;
    for (uint32_t i = 0; i < zip->n_entries; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        TRY(make_room(zip, CENTRAL_BYTES + strlen(entry->name)));
        put32(zip, 0x02014b50);
        put16(zip, VERSION); /* made by */
        put_common(zip, entry);
        put16(zip, 0); /* comment */
        put16(zip, 0); /* disk */
        put16(zip, 0); /* attributes, */
        put32(zip, 0); /* and those of a system */
        put32(zip, entry->at);
        put(zip, entry->name, strlen(entry->name));
    }
    const uint32_t central_bytes = (uint32_t)zip->n_bytes - at;
    TRY(make_room(zip, END_BYTES));
    put32(zip, 0x06054b50);
    put16(zip, 0); /* disks */
    put16(zip, 0);
    put16(zip, zip->n_entries);
    put16(zip, zip->n_entries);
    put32(zip, central_bytes);
    put32(zip, at);
    put16(zip, 0); /* comment */
    return STATUS_OK;
}

void zip_file_finish(struct zip_file *zip)
{
    free(zip->bytes);
    *zip = (struct zip_file){0};
}
