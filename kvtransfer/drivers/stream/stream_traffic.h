/* stream_traffic - frames into a connection, to its reader or its owner, and messages out of it. */
#pragma once

#include "kvtransfer/drivers/stream/stream_state.h"

/* Its socket can go on, or it is ready. */
void stream_traffic_serve(struct stream_connection *connection);
