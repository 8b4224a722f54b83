#include "process/geometry_codec.h"

#include "rpc/borrow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGEST_HEX 16 /* characters of one half */

void digest_format(const uint64_t digest[2], char text_out[DIGEST_TEXT_BYTES])
{
    snprintf(text_out, DIGEST_TEXT_BYTES, "%016" PRIx64 "%016" PRIx64, digest[0], digest[1]);
}

static bool is_hex(const char *text)
{
    return strspn(text, "0123456789abcdef") == strlen(text);
}

/* "": 0 */
static bool scales_parse(const char *text, uint64_t *digest_out)
{
    *digest_out = strtoull(text, NULL, 16);
    return !text[0] || (strlen(text) == DIGEST_HEX && is_hex(text) && *digest_out != 0);
}

static bool digest_parse(const char *text, uint64_t digest_out[2])
{
    if (strlen(text) != 2 * DIGEST_HEX || !is_hex(text))
        return false;
    char half[DIGEST_HEX + 1] = {0};
    memcpy(half, text, DIGEST_HEX);
    digest_out[0] = strtoull(half, NULL, 16);
    digest_out[1] = strtoull(text + DIGEST_HEX, NULL, 16);
    return true;
}

/* One group that keeps all is not told: earlier versions have no other. */
static void encode_groups(const struct geometry *geometry, struct geometry_message *message_out)
{
    const struct cache_groups *groups = &geometry->groups;
    if (cache_groups_is_plain(groups))
        return;
    for (uint32_t i = 0; i < groups->n; i++) {
        Kvferry__V1__CacheGroup *group = &message_out->groups[i];
        kvferry__v1__cache_group__init(group);
        group->n_layers = groups->all[i].n_layers;
        group->window = groups->all[i].window;
        const struct cache_heads heads = geometry_heads(geometry, i);
        if (heads.n != geometry->n_kv_heads)
            group->n_kv_heads = heads.n;
        if (heads.dim != geometry->head_dim)
            group->head_dim = heads.dim;
        message_out->group_pointers[i] = group;
    }
    message_out->message.groups = message_out->group_pointers;
    message_out->message.n_groups = groups->n;
    message_out->message.block_layers = groups->places;
    message_out->message.state_blocks = groups->n_state;
}

static enum status decode_groups(const Kvferry__V1__Geometry *message,
                                 struct cache_groups *groups_out, struct error *error)
{
    struct cache_groups groups = {.n = (uint32_t)message->n_groups,
                                  .places = message->block_layers,
                                  .n_state = message->state_blocks};
    if (message->n_groups > CACHE_GROUPS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "geometry.groups are %zu, at most %u",
                         message->n_groups, CACHE_GROUPS_MAX);
    if (groups.n == 0 && groups.places != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "geometry.block_layers is %" PRIu32 " without geometry.groups",
                         groups.places);
    bool have_heads = false;
    for (uint32_t i = 0; i < groups.n; i++)
        have_heads |= message->groups[i]->n_kv_heads > 0 || message->groups[i]->head_dim > 0;
    for (uint32_t i = 0; i < groups.n; i++) {
        const Kvferry__V1__CacheGroup *group = message->groups[i];
        groups.all[i] = (struct cache_group){.n_layers = group->n_layers, .window = group->window};
        if (have_heads)
            groups.all[i].heads = (struct cache_heads){
                group->n_kv_heads ? group->n_kv_heads : message->n_kv_heads,
                group->head_dim ? group->head_dim : message->head_dim};
    }
    *groups_out = groups;
    return STATUS_OK;
}

void geometry_encode(const struct geometry *geometry, struct geometry_message *message_out)
{
    Kvferry__V1__Geometry *message = &message_out->message;
    kvferry__v1__geometry__init(message);
    message->n_layers = geometry->n_layers;
    message->n_kv_heads = geometry->n_kv_heads;
    message->head_dim = geometry->head_dim;
    message->latent_dim = geometry->latent_dim;
    message->block_tokens = geometry->block_tokens;
    message->dtype = borrow(kv_dtype_name(geometry->dtype));
    message->block_bytes = geometry_block_bytes(geometry);
    encode_groups(geometry, message_out);
    message->sink_tokens = geometry->sinks.sinks;
    message->sink_window = geometry->sinks.window;
    digest_format(geometry->model_digest, message_out->digest);
    message->model_digest = message_out->digest;
    message->numerics = borrow(geometry->numerics);
    if (geometry->kv_scales) {
        snprintf(message_out->kv_scales, sizeof message_out->kv_scales, "%016" PRIx64,
                 geometry->kv_scales);
        message->kv_scales = message_out->kv_scales;
    }
}

enum status geometry_decode(const Kvferry__V1__Geometry *message, struct geometry *geometry_out,
                            struct error *error)
{
    if (!message)
        return error_set(error, STATUS_INVALID_ARGUMENT, "geometry is absent");
    struct geometry geometry = {
        .n_layers = message->n_layers,
        .n_kv_heads = message->n_kv_heads,
        .head_dim = message->head_dim,
        .latent_dim = message->latent_dim,
        .block_tokens = message->block_tokens,
        .sinks = {.window = message->sink_window, .sinks = message->sink_tokens},
    };
    if (kv_dtype_parse(message->dtype, &geometry.dtype) != STATUS_OK)
        return error_set(error, STATUS_INVALID_ARGUMENT, "geometry.dtype \"%.20s\" is unknown",
                         message->dtype);
    if (!digest_parse(message->model_digest, geometry.model_digest))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "geometry.model_digest \"%.40s\" is not 32 hexadecimal digits",
                         message->model_digest);
    if (!scales_parse(message->kv_scales, &geometry.kv_scales))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "geometry.kv_scales \"%.40s\" is not 16 hexadecimal digits",
                         message->kv_scales);
    if (message->numerics[0] && !numerics_is_id(message->numerics))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "geometry.numerics \"%.40s\" is no id of at most %d characters",
                         message->numerics, NUMERICS_ID_MAX - 1);
    snprintf(geometry.numerics, sizeof geometry.numerics, "%s", message->numerics);
    TRY(decode_groups(message, &geometry.groups, error));
    TRY(geometry_check(&geometry, error));
    if (geometry_block_bytes(&geometry) != message->block_bytes)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "geometry.block_bytes is %" PRIu64 "; its other fields make %" PRIu64,
                         message->block_bytes, geometry_block_bytes(&geometry));
    *geometry_out = geometry;
    return STATUS_OK;
}

enum status kv_terms_match(const struct kv_terms *ours, const struct kv_terms *theirs,
                           struct error *error)
{
    TRY(geometry_match_converting(ours->geometry, theirs->geometry, ours->allow_numerics,
                                  ours->converts, error));
    if (strcmp(ours->transport, theirs->transport) != 0)
        return error_set(error, STATUS_GEOMETRY_MISMATCH, "transport is %s here and %s there",
                         ours->transport, theirs->transport);
    return STATUS_OK;
}
