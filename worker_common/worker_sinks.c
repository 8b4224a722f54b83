#include "worker_common/worker_sinks.h"

#include "model/config/attention_windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum status worker_sinks_read(uint32_t sink_tokens, const char *attention_window,
                              struct sink_window *sinks_out, struct error *error)
{
    const char *text = attention_window ? attention_window : "";
    *sinks_out = (struct sink_window){0};
    if (sink_tokens == 0)
        return STATUS_OK;
    errno = 0;
    char *end;
    const unsigned long window = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno != 0 || window > ATTENTION_WINDOW_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sink_tokens is %u, and attention_window is \"%.60s\": expected one "
                         "number, of the tokens that a token of the reply sees",
                         sink_tokens, text);
    if (window <= sink_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sink_tokens is %u of an attention_window of %lu: expected fewer",
                         sink_tokens, window);
    *sinks_out = (struct sink_window){.window = (uint32_t)window, .sinks = sink_tokens};
    return STATUS_OK;
}

enum status worker_sinks_check_manager(uint32_t sink_tokens, enum kv_manager_choice manager,
                                       struct error *error)
{
    if (sink_tokens == 0 || manager == KV_MANAGER_PAGED)
        return STATUS_OK;
    return error_set(
        error, STATUS_UNSUPPORTED,
        "sink_tokens is %u, and kv_manager contiguous keeps all tokens: expected paged",
        sink_tokens);
}

const char *worker_model_window(uint32_t sink_tokens, const char *attention_window)
{
    return sink_tokens > 0 ? "" : attention_window;
}
