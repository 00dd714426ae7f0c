/* server_clock.c: see server_clock.h. */
#include <stdbool.h>
#include <stdlib.h>

#include "server_clock.h"
#include "world/seams.h"

typedef struct {
    int64_t at, lead_ns;
} change;

static struct {
    change *changes; /* as they came */
    unsigned count, room;
    int64_t lead_ns;
    bool was_back;       /* it was set back */
    int64_t greatest_ns; /* what it showed when it was, the greatest */
} server;

void lk_sim_server_clock_begin(void)
{
    server.count = 0;
    server.lead_ns = 0;
    server.was_back = false;
}

void lk_sim_server_clock_leads(int64_t lead_ns)
{
    const int64_t showed_ns = lk_sim_now() + server.lead_ns;
    if (lead_ns < server.lead_ns && (!server.was_back || showed_ns > server.greatest_ns)) {
        server.was_back = true;
        server.greatest_ns = showed_ns;
    }
    if (server.count == server.room) {
        server.room = 2 * server.room + 64;
        server.changes = realloc(server.changes, server.room * sizeof *server.changes);
        if (server.changes == NULL)
            abort();
    }
    server.changes[server.count++] = (change){lk_sim_now(), lead_ns};
    server.lead_ns = lead_ns;
}

int64_t lk_sim_server_clock_gained(int64_t since)
{
    int64_t later_ns = server.lead_ns, gained = 0;
    for (unsigned i = server.count; i > 0 && server.changes[i - 1].at >= since; i--) {
        const int64_t before_ns = i > 1 ? server.changes[i - 2].lead_ns : 0;
        if (gained < later_ns - before_ns)
            gained = later_ns - before_ns;
        if (later_ns < before_ns)
            later_ns = before_ns;
    }
    return gained;
}

int64_t lk_sim_server_clock_caught_up(int64_t lease_ns)
{
    return server.was_back ? server.greatest_ns + lease_ns - server.lead_ns : 0;
}
