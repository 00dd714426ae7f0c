/* state.c: see state.h. */
#include "state.h"

#include <stdio.h>

static const int64_t us_ns = 1000, ms_us = 1000;

/* splitmix64: https://prng.di.unimi.it/splitmix64.c */
static uint64_t draw(lk_sr_server *server)
{
    uint64_t z = server->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

void lk_sr_draw_id(lk_sr_server *server, char id[LK_SR_ID_LEN + 1])
{
    for (size_t i = 0; i < LK_SR_ID_LEN; i += 8)
        (void)snprintf(id + i, 9, "%08x", (unsigned)(draw(server) >> 32));
}

bool lk_sr_is_replica(const lk_sr_server *server)
{
    return server->master.host[0] != '\0';
}

bool lk_sr_is_stale(const lk_sr_server *server)
{
    return lk_sr_is_replica(server) && !server->master.linked && server->hides_stale;
}

int64_t lk_sr_clock_us(const lk_sr_server *server)
{
    return (server->now_ns + server->clock_ns) / us_ns;
}

int64_t lk_sr_clock_ms(const lk_sr_server *server)
{
    return lk_sr_clock_us(server) / ms_us;
}

void lk_sr_tell(lk_sr_client *client)
{
    const lk_sr_setup *setup = &client->server->setup;
    if (setup->ready != NULL)
        setup->ready(setup->context, client);
}
