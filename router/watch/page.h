/* page - the files of the page as bytes; page.S embeds them. Thread: any (constants). */
#pragma once

struct page_part {
    const char *path, *type;
    const char *begin, *end;
};

extern const struct page_part PAGE_PARTS[4];
