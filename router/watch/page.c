#include "router/watch/page.h"

/* Of page.S. */
extern const char page_html_begin[], page_html_end[];
extern const char page_css_begin[], page_css_end[];
extern const char page_js_begin[], page_js_end[];
extern const char page_svg_begin[], page_svg_end[];

const struct page_part PAGE_PARTS[4] = {
    {"/", "text/html; charset=utf-8", page_html_begin, page_html_end},
    {"/page.css", "text/css; charset=utf-8", page_css_begin, page_css_end},
    {"/page.js", "text/javascript; charset=utf-8", page_js_begin, page_js_end},
    {"/page.svg", "image/svg+xml", page_svg_begin, page_svg_end},
};
