/* keeper.c: what happens without a caller: the connection's events, and what is due in dispatch. */
#include <string.h>

#include "place.h"

static void on_gone_locked(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision) LK_REQUIRES(*e->net)
{
    lk_etcd_eye *const eye = LK_CONTAINER(watcher, lk_etcd_eye, watcher);
    lk_etcd_place *const p = eye->place;
    if (eye == &p->ahead) {
        if (revision > 0 && !lk_etcd_place_is_second_locked(e, p))
            lk_etcd_place_follow(p, NULL); /* it looks for another predecessor at once */
        if (p->step == LK_ETCD_BEHIND)
            lk_etcd_place_step(p, LK_ETCD_ENTERED);
        lk_etcd_place_tell_locked(e, p);
    } else if (revision > p->created && !lk_etcd_in_flight(p->removal) &&
               p->step != LK_ETCD_GONE) { /* else we know of the end */
        lk_etcd_place_vanish_locked(e, p, "its key was deleted, or its lease has ended");
    } else if (p->granted_at != 0) {
        lk_etcd_place_unwatched_locked(e, p);
    }
}

static void on_watched_locked(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision) LK_REQUIRES(*e->net)
{
    lk_etcd_eye *const eye = LK_CONTAINER(watcher, lk_etcd_eye, watcher);
    if (eye == &eye->place->ahead)
        lk_etcd_place_watched_locked(e, eye->place, revision);
}

/* Wake all waiting places: each asks again what is ahead of it. The keeper deletes places without a claim,
 * and moves keys. */
static void on_up_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    e->retry_at = 0;
    e->line_stands = true;
    e->svc->attend(e->svc);
    memset(e->first, 0, sizeof e->first); /* revisions repeat if the servers have lost their data */
    LK_EACH(lk_etcd_lease, lease, link, &e->leases)
        LK_EACH(lk_etcd_place, p, link, &lease->places)
            if (p->granted_at == 0)
                lk_etcd_place_tell_locked(e, p);
}

/* Take places out of the list of waiting questions, and wake them: they ask when there is a connection. */
static void on_down_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    LK_EACH_SAFE(lk_etcd_place, p, turn, &e->asks) {
        lk_list_remove(&p->turn);
        lk_etcd_place_tell_locked(e, p);
    }
    const lk_table_link *link = NULL;
    while ((link = lk_table_after(&e->lines, link)) != NULL)
        LK_EACH(lk_etcd_place, p, turn, &LK_CONTAINER(link, lk_line, by_hash)->waiting)
            lk_etcd_place_tell_locked(e, p);
}

const lk_etcd_owner lk_etcd_connection_events = {.on_up = on_up_locked,
                                                 .on_down = on_down_locked,
                                                 .on_gone = on_gone_locked,
                                                 .on_watched = on_watched_locked};

int64_t lk_etcd_dispatch(void *self)
{
    lk_etcd *e = self;
    lk_etcd_enter(e->net);
    int64_t next = lk_etcd_turn_locked(e->net);
    const int64_t now = lk_etcd_now_of(e);
    if (now >= e->retry_at)
        e->retry_at = LOCKER_NEVER;
    next = lk_time_earlier(next, lk_etcd_leases_look_after_locked(e, now));
    next = lk_time_earlier(next, lk_etcd_places_look_after_locked(e, now));
    next = lk_time_earlier(next, lk_etcd_places_left_locked(e, now));
    lk_etcd_lines_look_after_locked(e);
    next = lk_time_earlier(next, lk_etcd_is_up_locked(e->net) ? e->retry_at : LOCKER_NEVER);
    next = lk_etcd_turn_ends_locked(e->net, next);
    lk_etcd_leave(e->net);
    return next;
}
