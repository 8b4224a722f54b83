/* page - embeds the files of the page; see page.h. */
#ifdef __CET__
#include <cet.h> /* marks the file: it has no indirect jumps */
#endif
    .section .rodata
    .global page_html_begin, page_html_end, page_css_begin, page_css_end, page_js_begin, page_js_end
    .global page_svg_begin, page_svg_end
page_html_begin:
    .incbin "router/watch/page.html"
page_html_end:
page_css_begin:
    .incbin "router/watch/page.css"
page_css_end:
page_js_begin:
    .incbin "router/watch/page.js"
page_js_end:
page_svg_begin:
    .incbin "router/watch/page.svg"
page_svg_end:
    .section .note.GNU-stack, "", %progbits
