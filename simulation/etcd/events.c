/* events.c: what is to happen, in its order. See state.h. */
#include <stdlib.h>

#include "state.h"

int64_t lk_simetcd_local(const lk_simetcd_member *m)
{
    const lk_simetcd_clock *const clock = &m->e->setup.clocks[m->id];
    return clock->offset_ns + m->e->now + m->e->now / LK_SIMETCD_MS * clock->ppm;
}

int64_t lk_simetcd_takes(const lk_simetcd_member *m, int64_t local_ns)
{
    return local_ns - local_ns / LK_SIMETCD_MS * m->e->setup.clocks[m->id].ppm;
}

int64_t lk_simetcd_delay_of(const lk_simetcd *e, lk_simetcd_delay what, int member)
{
    return e->setup.delay != NULL ? e->setup.delay(e->setup.context, what, member) : 0;
}

uint64_t lk_simetcd_draw(const lk_simetcd *e, uint64_t below)
{
    return e->setup.draw != NULL ? e->setup.draw(e->setup.context, below) : 0;
}

static void add(lk_simetcd *e, lk_simetcd_event *event)
{
    lk_list *before = e->events.prev;
    while (before != &e->events && LK_CONTAINER(before, lk_simetcd_event, link)->at > event->at)
        before = before->prev;
    lk_list_prepend(before, &event->link); /* behind it: a ring */
}

static lk_simetcd_event *event_new(lk_simetcd_what what, int member, int64_t at)
{
    lk_simetcd_event *const event = lk_simetcd_alloc(sizeof *event);
    *event = (lk_simetcd_event){.what = what, .member = member, .at = at};
    return event;
}

void lk_simetcd_post(lk_simetcd_member *m, lk_simetcd_what what, uint64_t number, int64_t in_ns)
{
    lk_simetcd_event *const event = event_new(what, m->id, m->e->now + in_ns);
    event->life = m->life;
    event->number = number;
    event->from = -1;
    add(m->e, event);
}

static void send_at(lk_simetcd *e, lk_simetcd_event *event, int64_t at)
{
    int64_t *const last = &e->last_at[event->from][event->member];
    *last = event->at = at > *last ? at : *last;
    add(e, event);
}

void lk_simetcd_send(lk_simetcd *e, lk_simetcd_message *message)
{
    lk_simetcd_event *const event = event_new(LK_SIMETCD_COMES, message->to, 0);
    event->from = message->from;
    event->message = message;
    if (e->is_clogged[message->from][message->to])
        lk_list_append(&e->clogged[message->from][message->to], &event->link);
    else
        send_at(e, event, e->now + lk_simetcd_delay_of(e, LK_SIMETCD_LINK, message->to));
}

void lk_simetcd_release(lk_simetcd *e, lk_list *held, int64_t most_ns)
{
    lk_list all;
    lk_list_init(&all);
    lk_list_splice(&all, held);
    for (lk_list *link; (link = lk_list_take(&all)) != NULL;) {
        lk_simetcd_event *const event = LK_CONTAINER(link, lk_simetcd_event, link);
        const int64_t at = e->now + (most_ns > 0 ? (int64_t)lk_simetcd_draw(e, (uint64_t)most_ns) : 0);
        if (event->what == LK_SIMETCD_COMES) {
            send_at(e, event, at);
        } else {
            event->at = at;
            add(e, event);
        }
    }
}

void lk_simetcd_event_free(lk_simetcd_event *event)
{
    if (event->message != NULL)
        lk_simetcd_message_free(event->message);
    free(event);
}

void lk_simetcd_rouse(lk_simetcd_member *m)
{
    if (m->is_roused || m->writes)
        return;
    m->is_roused = true;
    lk_simetcd_post(m, LK_SIMETCD_IS_READY, 0, lk_simetcd_delay_of(m->e, LK_SIMETCD_READY, m->id));
}
