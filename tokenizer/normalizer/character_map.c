#include "tokenizer/normalizer/character_map.h"

#include "base/utf8.h"

#include <utf8proc.h>

static unsigned keep(uint32_t codepoint, uint32_t *out)
{
    out[0] = codepoint;
    return 1;
}

static utf8proc_category_t category(uint32_t codepoint)
{
    return utf8proc_category((utf8proc_int32_t)codepoint);
}

unsigned character_map_nmt(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX])
{
    if ((codepoint >= 0x01 && codepoint <= 0x08) || codepoint == 0x0b ||
        (codepoint >= 0x0e && codepoint <= 0x1f) || codepoint == 0x7f || codepoint == 0x8f ||
        codepoint == 0x9f)
        return 0;
    switch (codepoint) {
    case 0x09:
    case 0x0a:
    case 0x0c:
    case 0x0d:
    case 0x1680:
    case 0x200b:
    case 0x200c:
    case 0x200d:
    case 0x200e:
    case 0x200f:
    case 0x2028:
    case 0x2029:
    case 0x2581:
    case 0xfeff:
    case 0xfffd:
        return keep(' ', out);
    default:
        return keep(codepoint, out);
    }
}

static bool is_control(uint32_t codepoint)
{
    switch (category(codepoint)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
        return codepoint != '\t' && codepoint != '\n' && codepoint != '\r';
    default:
        return false;
    }
}

unsigned character_map_clean(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX])
{
    if (codepoint == 0 || codepoint == 0xfffd || is_control(codepoint))
        return 0;
    return keep(utf8_is_white_space(codepoint) ? ' ' : codepoint, out);
}

static bool is_ideograph(uint32_t codepoint)
{
    static const uint32_t ranges[][2] = {
        {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
        {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f},
    };

    for (unsigned i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (codepoint >= ranges[i][0] && codepoint <= ranges[i][1])
            return true;
    return false;
}

unsigned character_map_apart(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX])
{
    if (!is_ideograph(codepoint))
        return keep(codepoint, out);
    out[0] = ' ';
    out[1] = codepoint;
    out[2] = ' ';
    return 3;
}

unsigned character_map_bare(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX])
{
    return category(codepoint) == UTF8PROC_CATEGORY_MN ? 0 : keep(codepoint, out);
}

unsigned character_map_no_marks(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX])
{
    utf8proc_category_t is = category(codepoint);
    bool is_mark = is == UTF8PROC_CATEGORY_MN || is == UTF8PROC_CATEGORY_MC ||
                   is == UTF8PROC_CATEGORY_ME;
    return is_mark ? 0 : keep(codepoint, out);
}

unsigned character_map_lower(uint32_t codepoint, uint32_t out[CHARACTER_MAP_MAX])
{
    if (codepoint == 0x130) { /* the one character that becomes two (SpecialCasing.txt) */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    return keep((uint32_t)utf8proc_tolower((utf8proc_int32_t)codepoint), out);
}

void character_map_fill_ascii(character_map map, struct ascii_map *ascii_out)
{
    for (uint32_t codepoint = 0; codepoint < 128; codepoint++) {
        uint32_t out[CHARACTER_MAP_MAX];
        unsigned n = map(codepoint, out);
        ascii_out->becomes[codepoint] = n == 0                    ? CHARACTER_GONE
                                        : n == 1 && out[0] < 0x80 ? (uint8_t)out[0]
                                                                  : CHARACTER_ASK;
    }
}

/* Characters of ASCII from at on that become one each. They are written behind what is made, where there is room. Returns how many. */
static size_t map_ascii(const struct ascii_map *ascii, const struct rewritten *text, size_t at,
                        struct rewritten *made)
{
    size_t n = 0;

    while (at + n < text->n_bytes && made->n_bytes < made->bytes_max) {
        uint8_t byte = (uint8_t)text->bytes[at + n];
        if (byte >= 0x80 || ascii->becomes[byte] >= 0x80)
            break;
        made->bytes[made->n_bytes++] = (char)ascii->becomes[byte];
        n++;
    }
    return n;
}

static enum status map_one(character_map map, const struct rewritten *text, size_t *at,
                           struct rewritten *made, struct error *error)
{
    uint32_t codepoint, out[CHARACTER_MAP_MAX];
    char bytes[4 * CHARACTER_MAP_MAX];
    size_t n_bytes = 0;

    *at += utf8_read(text->bytes + *at, &codepoint);
    unsigned n = map(codepoint, out);
    for (unsigned i = 0; i < n; i++)
        n_bytes += utf8_write(out[i], bytes + n_bytes);
    made->is_moved |= n == 0 && made->n_bytes == 0;
    return rewritten_append(made, bytes, n_bytes, error);
}

enum status character_map_apply(character_map map, const struct ascii_map *ascii,
                                struct rewritten *text_inout, struct error *error)
{
    struct rewritten made = {.is_moved = text_inout->is_moved};
    enum status status = rewritten_reserve(&made, text_inout->n_bytes + 1);

    for (size_t at = 0; at < text_inout->n_bytes && status == STATUS_OK;) {
        size_t n = map_ascii(ascii, text_inout, at, &made);
        at += n;
        if (n == 0)
            status = map_one(map, text_inout, &at, &made, error);
    }
    rewritten_finish(status == STATUS_OK ? text_inout : &made);
    if (status == STATUS_OK)
        *text_inout = made;
    return status;
}
