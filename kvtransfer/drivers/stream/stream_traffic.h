/* stream_traffic - reads frames from a connection for the reader's or the owner's side, and writes messages. */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* Its socket can go on, or it is ready. */
void stream_traffic_serve(struct stream_connection *connection);
