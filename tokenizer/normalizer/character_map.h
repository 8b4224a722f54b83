/*
 * character_map - normalizers that look at one character at a time: what each becomes, perhaps nothing.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/normalizer/replacement.h"

#include <stdint.h>

#define CHARACTER_MAP_MAX 3

/* Writes what the character becomes; returns how many. */
typedef unsigned (*character_map)(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX]);

/* Nmt: most controls go, other white space, zero-width and byte-order marks become spaces. */
unsigned character_map_nmt(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX]);
/* BertNormalizer, in its order: clean_text: U+0000, U+FFFD, controls, formats and private characters go, white space becomes a space ... */
unsigned character_map_clean(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX]);
/* ... handle_chinese_chars: a space on both sides of an ideograph ... */
unsigned character_map_apart(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX]);
/* ... strip_accents, after NFD: marks that take no space go. */
unsigned character_map_bare(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX]);
/* StripAccents: all marks go. */
unsigned character_map_no_marks(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX]);
/* Lowercase. */
unsigned character_map_lower(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX]);

/* What ASCII becomes, for most text is that: another character of it, or CHARACTER_GONE, or CHARACTER_ASK the map. */
#define CHARACTER_GONE 0x80
#define CHARACTER_ASK  0x81
struct ascii_map {
    uint8_t becomes[128];
};

void character_map_fill_ascii(character_map map, struct ascii_map *ascii_out);

/* ascii: of this map. Fails as rewritten_append does; the text is then as it was. */
MUST_CHECK enum status character_map_apply(character_map map, const struct ascii_map *ascii,
                                           struct rewritten *text_inout, struct error *error);
