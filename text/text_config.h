/*
 * text_config - the rows of a role that renders chat templates, and how they reach template_renderer.h.
 *
 * A role puts TEXT_CONFIG_ROWS(X) into its table and hands TEXT_LIMITS(config) on.
 */
#pragma once

#include "base/config/config.h"

#define TEXT_CONFIG_ROWS(X)                                                                        \
    X(chat_template, STRING, "", "path",                                                           \
      "file with the chat template (Jinja); empty: that of the model's folder")                    \
    X(chat_template_bytes_max, SIZE(1024, 16777216), "1M", "bytes", "largest chat template read")  \
    X(chat_protect_tokens, BOOL, "yes", "",                                                        \
      "a special token that is written in a chat message stays text; no: it becomes the token, "   \
      "as Transformers does by default")                                                           \
    X(chat_renderers, U32(1, 64), "1", "processes", "processes that render chat templates")        \
    X(chat_render_ms, DURATION_MS(10, 600000), "2s", "ms",                                         \
      "longest time to render the prompt of one chat request")                                     \
    X(chat_render_cpu_ms, DURATION_MS(10, 600000), "1s", "ms",                                     \
      "most CPU time to render the prompt of one chat request")                                    \
    X(chat_render_steps, U64(1000, 1000000000000), "20000000", "steps",                            \
      "most steps of a chat template for one request")                                             \
    X(chat_render_memory, SIZE(16777216, 68719476736), "256M", "bytes",                            \
      "most memory of a process that renders chat templates")                                      \
    X(chat_request_bytes_max, SIZE(1024, 134217728), "8M", "bytes",                                \
      "largest chat request, as JSON")                                                             \
    X(chat_messages_max, U32(1, 1048576), "4096", "messages", "most messages of a chat request")   \
    X(chat_parts_max, U32(1, 65536), "1024", "parts", "most parts of the content of a message")    \
    X(chat_calls_max, U32(1, 65536), "256", "calls", "most tool calls of a message")               \
    X(chat_tools_max, U32(1, 4096), "512", "tools", "most tools of a chat request")                \
    X(chat_tool_bytes_max, SIZE(1024, 67108864), "2M", "bytes",                                    \
      "most bytes of all tools of a chat request, as JSON")                                        \
    X(chat_documents_max, U32(1, 65536), "512", "documents", "most documents of a chat request")   \
    X(chat_argument_bytes_max, SIZE(1024, 67108864), "256K", "bytes",                              \
      "most bytes of a chat request's own arguments of the template (chat_template_kwargs), as "   \
      "JSON")                                                                                      \
    X(chat_prompt_bytes_max, SIZE(1024, 134217728), "16M", "bytes",                                \
      "longest prompt that a chat template may make")

/* The members of struct chat_limits. */
#define CHAT_LIMITS(config)                                                                        \
    .bytes_max = (config)->chat_request_bytes_max,                                                 \
    .messages_max = (uint32_t)(config)->chat_messages_max,                                         \
    .parts_max = (uint32_t)(config)->chat_parts_max,                                               \
    .calls_max = (uint32_t)(config)->chat_calls_max,                                               \
    .tools_max = (uint32_t)(config)->chat_tools_max,                                               \
    .documents_max = (uint32_t)(config)->chat_documents_max,                                       \
    .tool_bytes_max = (config)->chat_tool_bytes_max,                                               \
    .argument_bytes_max = (config)->chat_argument_bytes_max

/* The members of struct template_renderer_options that come from these rows. */
#define TEXT_LIMITS(config)                                                                        \
    .template_file = (config)->chat_template,                                                      \
    .template_bytes_max = (config)->chat_template_bytes_max,                                       \
    .protects_tokens = (config)->chat_protect_tokens, .n_workers = (config)->chat_renderers,       \
    .render_ms = (config)->chat_render_ms,                                                         \
    .limits = {                                                                                    \
        .memory_bytes = (config)->chat_render_memory,                                              \
        .cpu_ms = (config)->chat_render_cpu_ms,                                                    \
        .fuel = (config)->chat_render_steps,                                                       \
        .request_bytes_max = (uint32_t)(config)->chat_request_bytes_max,                           \
        .prompt_bytes_max = (uint32_t)(config)->chat_prompt_bytes_max,                             \
    }
