/* port.h: ports for servers on 127.0.0.1. */
#pragma once

/** A TCP port of 127.0.0.1 that nobody uses, outside the range from which the kernel takes those of outgoing
 * connections, so that a client which tries a stopped server's port again never connects to itself. Another
 * process may take it meanwhile. 0: there is none. */
int lk_free_port(void);
