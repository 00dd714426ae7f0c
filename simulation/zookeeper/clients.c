/* clients.c: one server's connections with clients. */
#include "state.h"

void lk_simzk_hang_up(lk_simzk_server *s, lk_simzk_connection *c)
{
    lk_simzk_watches_drop(&s->watches, c);
    lk_simzk_connection_close(c);
}

void lk_simzk_hang_up_session(lk_simzk_server *s, int64_t session, const lk_simzk_connection *but)
{
    for (lk_list *link = s->connections.next, *next; link != &s->connections; link = next) {
        lk_simzk_connection *const c = LK_CONTAINER(link, lk_simzk_connection, link);
        next = link->next;
        if (c->session == session && c != but)
            lk_simzk_hang_up(s, c);
    }
}

void lk_simzk_hang_up_all(lk_simzk_server *s)
{
    for (lk_list *link; (link = lk_list_first(&s->connections)) != NULL;)
        lk_simzk_hang_up(s, LK_CONTAINER(link, lk_simzk_connection, link));
}

void lk_simzk_welcome(lk_simzk_server *s, lk_simzk_connection *c, bool valid)
{
    lk_simzk_parcel *const parcel = lk_simzk_parcel_new(LK_SIMZK_WELCOME);
    if (valid) {
        parcel->answer.session = c->session;
        parcel->answer.timeout_ms = c->timeout_ms;
        parcel->answer.password = lk_simzk_password(c->session);
    }
    lk_simzk_connection_put(c, parcel);
    c->established = s->has_inputs = true;
    if (!valid)
        lk_simzk_hang_up(s, c);
}

uint64_t lk_simzk_password(int64_t session)
{
    return ((uint64_t)session ^ UINT64_C(0xB3415C00)) * UINT64_C(0x9e3779b97f4a7c15); /* any will do */
}
