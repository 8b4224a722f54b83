#include "rpc/relay/address_book.h"

#include "base/hash.h"
#include "base/random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define N_BUCKETS      4096u /* a power of two */
#define IPV6_KEY_BYTES 8

struct address_book {
    const struct network_list *exempt;
    struct hash_key hash_key; /* secret, so that no attacker can choose addresses of one bucket */
    struct address_entry *buckets[N_BUCKETS];
    struct address_entry *oldest_quiet;
    struct address_entry *newest_quiet;
    uint32_t n_quiet;
};

enum status address_book_create(const struct network_list *exempt, struct address_book **book_out)
{
    struct address_book *book = calloc(1, sizeof *book);
    if (!book)
        return STATUS_NO_MEMORY;
    book->exempt = exempt;
    enum status status = random_secret(&book->hash_key, sizeof book->hash_key, NULL);
    if (status != STATUS_OK) {
        free(book);
        return status;
    }
    *book_out = book;
    return STATUS_OK;
}

void address_book_destroy(struct address_book *book)
{
    for (uint32_t i = 0; book && i < N_BUCKETS; i++) {
        while (book->buckets[i]) {
            struct address_entry *entry = book->buckets[i];
            assert(entry->n_connections == 0);
            book->buckets[i] = entry->next_same_hash;
            free(entry);
        }
    }
    free(book);
}

static struct address_entry **bucket_of(struct address_book *book,
                                        const struct network_address *key)
{
    struct hash128 hash = hash128_of(&book->hash_key, key, sizeof *key);
    return &book->buckets[hash.lo % N_BUCKETS];
}

static void leave_quiet(struct address_book *book, struct address_entry *entry)
{
    assert(book->n_quiet > 0 && entry->n_connections == 0);
    if (entry->previous_quiet)
        entry->previous_quiet->next_quiet = entry->next_quiet;
    else
        book->oldest_quiet = entry->next_quiet;
    if (entry->next_quiet)
        entry->next_quiet->previous_quiet = entry->previous_quiet;
    else
        book->newest_quiet = entry->previous_quiet;
    entry->next_quiet = entry->previous_quiet = NULL;
    book->n_quiet--;
}

static void enter_quiet(struct address_book *book, struct address_entry *entry)
{
    entry->previous_quiet = book->newest_quiet;
    if (book->newest_quiet)
        book->newest_quiet->next_quiet = entry;
    else
        book->oldest_quiet = entry;
    book->newest_quiet = entry;
    book->n_quiet++;
}

static void forget_oldest(struct address_book *book)
{
    struct address_entry *entry = book->oldest_quiet;
    assert(entry);
    leave_quiet(book, entry);
    struct address_entry **place = bucket_of(book, &entry->key);
    while (*place != entry)
        place = &(*place)->next_same_hash;
    *place = entry->next_same_hash;
    free(entry);
}

/* An exempt address keeps all its bits, so that others of its /64 are not exempt. */
static struct network_address key_of(const struct network_address *address, bool is_exempt)
{
    struct network_address key = {{0}};
    if (address && (is_exempt || network_address_is_ipv4(address)))
        key = *address;
    else if (address)
        memcpy(key.bytes, address->bytes, IPV6_KEY_BYTES);
    return key;
}

struct address_entry *address_book_enter(struct address_book *book,
                                         const struct network_address *address)
{
    bool is_exempt = !address || network_list_has(book->exempt, address);
    struct network_address key = key_of(address, is_exempt);
    struct address_entry **bucket = bucket_of(book, &key);
    struct address_entry *entry = *bucket;
    while (entry && (entry->is_exempt != is_exempt || memcmp(&entry->key, &key, sizeof key) != 0))
        entry = entry->next_same_hash;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry)
            return NULL;
        entry->key = key;
        entry->is_exempt = is_exempt;
        entry->next_same_hash = *bucket;
        *bucket = entry;
    } else if (entry->n_connections == 0) {
        leave_quiet(book, entry);
    }
    entry->n_connections++;
    return entry;
}

void address_book_leave(struct address_book *book, struct address_entry *entry)
{
    assert(entry->n_connections > 0);
    if (--entry->n_connections > 0)
        return;
    assert(entry->n_streams == 0 && entry->n_half_open == 0 && entry->room.bytes == 0);
    assert(entry->n_unproven == 0 && entry->room.n_waiting == 0);
    enter_quiet(book, entry);
    if (book->n_quiet > ADDRESS_BOOK_QUIET_MAX)
        forget_oldest(book);
}

uint32_t address_book_n_quiet(const struct address_book *book)
{
    return book->n_quiet;
}
