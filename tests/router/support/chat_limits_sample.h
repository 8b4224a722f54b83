/* chat_limits_sample - limits of chat requests as the configuration has them when nobody sets them. */
#pragma once

#include "router/requests/chat_limits.h"

static const struct chat_limits CHAT_LIMITS_SAMPLE = {.bytes_max = 8 << 20,
                                                      .messages_max = 4096,
                                                      .parts_max = 1024,
                                                      .calls_max = 256,
                                                      .tools_max = 512,
                                                      .documents_max = 512,
                                                      .tool_bytes_max = 2 << 20,
                                                      .argument_bytes_max = 256 << 10};
