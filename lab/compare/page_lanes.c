/* page_lanes.c: who asked for a lock and who held it, over time: a plot for each backend; see page_parts.h.
 * What was held for certain, and which times two held at once, is the history's to say (lab/history). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "page_parts.h"

enum {
    LANES = 16,
    GRANTS = 40,        /* no more are told apart on one picture */
    LANE_HEIGHT = 30,   /* px */
    FRAME_HEIGHT = 100, /* title, names of faults, axis and its name */
    MARKS = 400
};

/* One plot. */
typedef struct {
    lk_page *page;
    const lk_history *history;
    const lk_event *events;
    size_t events_len;
    const lk_report *report;
    size_t key;       /* which one is drawn */
    int64_t from, to; /* what is drawn */
    int64_t axis_to;  /* where the axis ends */
    bool cut;         /* there is more after `to` */
    bool watched;     /* somebody asked the service */
    struct {
        int64_t process;
        const char *name;
    } lane[LANES];
    size_t lanes_len;
    FILE *script;
} lanes;

/* ------------------------------------------------------------------ what to draw ---- */

static bool of_key(const lanes *l, const lk_event *event)
{
    return event->key && strcmp(event->key, lk_history_key_name(l->history, l->key)) == 0;
}

static size_t lane_of(const lanes *l, int64_t process)
{
    size_t i = 0;
    while (i < l->lanes_len && l->lane[i].process != process)
        i++;
    return i;
}

static void find_lanes(lanes *l)
{
    l->lanes_len = 0;
    for (size_t i = 0; i < lk_history_calls(l->history, l->key); i++) {
        const lk_event *asked = lk_history_call(l->history, l->key, i).asked;

        if (lane_of(l, asked->process) == l->lanes_len && l->lanes_len < LANES) {
            l->lane[l->lanes_len].process = asked->process;
            l->lane[l->lanes_len++].name = asked->worker ? asked->worker : "";
        }
    }
}

/* The key that most wanted: where workers have keys of their own, each is as good. */
static void find_key(lanes *l)
{
    size_t best = 0, most = 0;
    for (l->key = 0; l->key < lk_history_keys(l->history); l->key++) {
        find_lanes(l);
        if (l->lanes_len > most) {
            best = l->key;
            most = l->lanes_len;
        }
    }
    l->key = best;
    find_lanes(l);
}

/* From the first call to the last event, with a little room; less when so many got it that none is seen. */
static void find_times(lanes *l)
{
    size_t grants = 0;
    l->from = lk_history_call(l->history, l->key, 0).asked->t;
    l->to = l->events[l->events_len - 1].t;
    for (size_t i = 0; i < l->events_len; i++)
        if (l->events[i].op == LK_OP_FAULT && l->events[i].t < l->from)
            l->from = l->events[i].t;
    for (size_t i = 0; i < lk_history_calls(l->history, l->key) && !l->cut; i++) {
        const lk_call call = lk_history_call(l->history, l->key, i);

        if (call.granted && ++grants > GRANTS && call.to < l->to) {
            l->to = call.to;
            l->cut = true;
        }
    }
}

static double seconds(const lanes *l, int64_t t)
{
    const int64_t inside = t < l->from ? l->from : t > l->to ? l->to : t;
    return (double)(inside - l->from) / 1e9;
}

/* Of the whole axis, in seconds. */
static double width_of(const lanes *l)
{
    return l->axis_to > l->from ? (double)(l->axis_to - l->from) / 1e9 : 1;
}

/* The first lane is on top, the service's below all. */
static double height_of(const lanes *l, size_t lane)
{
    return (double)(l->lanes_len - lane) + (l->watched ? 1 : 0);
}

/* ------------------------------------------------------------------ data ---- */

static void put_box(const lanes *l, int64_t from, int64_t to, double middle, double half)
{
    if (to > from && from < l->to && to > l->from)
        fprintf(l->script, "%.6f %g %.6f %.6f %g %g\n", seconds(l, from), middle, seconds(l, from),
                seconds(l, to), middle - half, middle + half);
}

/* The last moment at which a process that was ended was certainly there. */
static int64_t end_of(const lk_event *ended)
{
    return ended->sent ? ended->sent : ended->t;
}

/* Until when the process waited: for an answer that never came, to its end. */
static int64_t waited_to(const lanes *l, const lk_call *call)
{
    return call->answered ? call->answered->t : call->ended ? end_of(call->ended) : l->to;
}

/* It may take the lock for its own from its deadline on, until it is told, unlocks or ends. */
static int64_t believed_to(const lk_call *call)
{
    int64_t to = INT64_MAX;
    if (call->lost)
        to = call->lost->t;
    if (call->unlock && call->unlock->t < to)
        to = call->unlock->t;
    if (call->ended && end_of(call->ended) < to)
        to = end_of(call->ended);
    return to == INT64_MAX ? call->to : to;
}

static bool shares(const lk_call *call)
{
    return call->asked->mode && strcmp(call->asked->mode, "shared") == 0;
}

static void put_calls(const lanes *l)
{
    static const char *const names[] = {"waits", "holds", "shares", "believes"};
    for (int what = 0; what < 4; what++) {
        fprintf(l->script, "$%s << EOD\n0 -9 0 0 -9 -9\n", names[what]);
        for (size_t i = 0; i < lk_history_calls(l->history, l->key); i++) {
            const lk_call call = lk_history_call(l->history, l->key, i);
            const double height = height_of(l, lane_of(l, call.asked->process));

            if (what == 0)
                put_box(l, call.asked->t, waited_to(l, &call), height, 0.16);
            else if (call.granted && what < 3 && (what == 2) == shares(&call))
                put_box(l, call.from, call.to, height, 0.36);
            else if (call.granted && what == 3)
                put_box(l, call.to, believed_to(&call), height, 0.2);
        }
        fputs("EOD\n", l->script);
    }
}

/* The number of each permit, where it fits into its box. */
static void put_slots(const lanes *l)
{
    fputs("$slots << EOD\n0 -9 \"\"\n", l->script);
    for (size_t i = 0; i < lk_history_calls(l->history, l->key); i++) {
        const lk_call call = lk_history_call(l->history, l->key, i);

        if (call.granted && call.answered->slot >= 0 && call.from < l->to &&
            seconds(l, call.to) - seconds(l, call.from) > width_of(l) / 70)
            fprintf(l->script, "%.6f %g \"%" PRId64 "\"\n", (seconds(l, call.from) + seconds(l, call.to)) / 2,
                    height_of(l, lane_of(l, call.asked->process)), call.answered->slot);
    }
    fputs("EOD\n", l->script);
}

/* Red over all lanes, and the boxes of those two on it. */
static void put_overlaps(const lanes *l)
{
    fputs("$two << EOD\n0 -9 0 0 -9 -9\n", l->script);
    for (size_t i = 0; i < l->report->finding_count; i++) {
        const lk_finding *finding = &l->report->findings[i];

        if (finding->check != LK_CHECK_OVERLAP || finding->key != l->key || !finding->second)
            continue;
        put_box(l, finding->from, finding->to, height_of(l, lane_of(l, finding->first->process)), 0.36);
        put_box(l, finding->from, finding->to, height_of(l, lane_of(l, finding->second->process)), 0.36);
    }
    fputs("EOD\n", l->script);
}

/* Who holds it by the service's word: the worker of that token, else of that label. */
static const char *named(const lanes *l, const lk_event *look)
{
    for (size_t i = 0; look->token && i < lk_history_calls(l->history, l->key); i++) {
        const lk_call call = lk_history_call(l->history, l->key, i);

        if (call.granted && call.answered->token == look->token && call.asked->worker)
            return call.asked->worker;
    }
    return look->owner ? look->owner : "held";
}

/* The name has to fit into its box. What gnuplot would take for an end of the text is left out. */
static void put_name(const lanes *l, const lk_event *first, const lk_event *last)
{
    const double from = seconds(l, first->sent), to = seconds(l, last->t);
    const char *who = named(l, first);
    if (to - from < (double)strlen(who) / 70 * width_of(l))
        return;
    fprintf(l->script, "%.6f 1 \"", (from + to) / 2);
    for (; *who; who++)
        fputc(strchr("\"\\", *who) || (unsigned char)*who < ' ' ? ' ' : *who, l->script);
    fputs("\"\n", l->script);
}

/* The service's lane, and on it the names: looks that follow each other and say the same are one box. */
static void put_server(const lanes *l, bool as_names)
{
    const lk_event *first = NULL, *last = NULL;
    fputs(as_names ? "$names << EOD\n0 -9 \"\"\n" : "$server << EOD\n0 -9 0 0 -9 -9\n", l->script);
    for (size_t i = 0; i <= l->events_len; i++) {
        const lk_event *look = i < l->events_len ? &l->events[i] : NULL;

        if (look && (look->op != LK_OP_SERVER || !of_key(l, look)))
            continue;
        if (first && look && look->held && look->token == first->token &&
            strcmp(named(l, look), named(l, first)) == 0) {
            last = look;
            continue;
        }
        if (first && as_names)
            put_name(l, first, last);
        else if (first)
            put_box(l, first->sent, last->t, 1, 0.34);
        first = last = look && look->held ? look : NULL;
    }
    fputs("EOD\n", l->script);
}

/* The fault's end: of the next line of its kind, else there is none. */
static int64_t fault_end(const lanes *l, size_t begin)
{
    for (size_t i = begin + 1; i < l->events_len; i++)
        if (l->events[i].op == LK_OP_FAULT && l->events[i].phase == LK_PHASE_END &&
            strcmp(l->events[i].kind, l->events[begin].kind) == 0)
            return l->events[i].t;
    return l->to;
}

static bool is_fault(const lanes *l, size_t index)
{
    const lk_event *event = &l->events[index];
    return event->op == LK_OP_FAULT && event->phase == LK_PHASE_BEGIN && event->t < l->to;
}

/* Write the faults' names over the lanes, to the right of where they begin, else to the left: no name is cut at the edge.
 * Where faults follow each other closely the first name has to do. */
static void name_faults(const lanes *l)
{
    double free_from = 0;
    for (size_t i = 0; i < l->events_len; i++) {
        if (!is_fault(l, i))
            continue;
        const double at = seconds(l, l->events[i].t),
                     length = (double)(strlen(l->events[i].kind) + 1) / 70 * width_of(l);
        const bool fits = at + length <= width_of(l);
        if ((fits ? at : at - length) < free_from)
            continue;
        fputs("set label ", l->script);
        lk_chart_text(l->script, l->events[i].kind);
        fprintf(l->script, " at %.6f, graph 1 offset %s font ',11' textcolor rgb '#8a4b00'\n", at,
                fits ? "0.2,0.5 left" : "-0.2,0.5 right");
        free_from = fits ? at + length : at;
    }
}

static void put_faults(const lanes *l)
{
    const double top = height_of(l, 0) + 0.6;
    fputs("$faults << EOD\n0 -9 0 0 -9 -9\n", l->script);
    for (size_t i = 0; i < l->events_len; i++) {
        if (is_fault(l, i))
            put_box(l, l->events[i].t, fault_end(l, i), (top + 0.4) / 2, (top - 0.4) / 2);
    }
    fputs("EOD\n", l->script);
}

static void put_marks(const lanes *l)
{
    static const struct {
        const char *name;
        lk_op op;
        lk_history_phase phase;
        double up; /* those of one moment are seen beside each other */
    } marks[] = {{"told", LK_OP_LOST, LK_PHASE_INFO, 0.22},
                 {"taken", LK_OP_WRITE, LK_PHASE_OK, -0.16},
                 {"refused", LK_OP_WRITE, LK_PHASE_FAIL, -0.16}};
    size_t put = 0;
    for (size_t mark = 0; mark < sizeof marks / sizeof marks[0]; mark++) {
        fprintf(l->script, "$%s << EOD\n0 -9\n", marks[mark].name);
        for (size_t i = 0; i < l->events_len && put < MARKS; i++)
            if (l->events[i].op == marks[mark].op && l->events[i].phase == marks[mark].phase &&
                of_key(l, &l->events[i]) && l->events[i].t <= l->to) {
                fprintf(l->script, "%.6f %g\n", seconds(l, l->events[i].t),
                        height_of(l, lane_of(l, l->events[i].process)) + marks[mark].up);
                put++;
            }
        fputs("EOD\n", l->script);
    }
}

/* ------------------------------------------------------------------ the plot ---- */

static void set_axes(const lanes *l, const char *title)
{
    const double width = width_of(l);
    fputs("set title ", l->script);
    lk_chart_text(l->script, title);
    fprintf(l->script,
            "\nset xrange [%.6f:%.6f]\nset yrange [0.4:%g]\nset xlabel 'seconds' offset 0,0.4\n"
            "set lmargin 14\nset rmargin 3\nset tmargin 2.6\nset bmargin 3\nunset key\n"
            "set grid xtics linetype 1 linecolor rgb '#e4e4e4'\nset style fill solid noborder\n"
            "set ytics scale 0 (",
            -0.015 * width, 1.015 * width, height_of(l, 0) + 0.6);
    for (size_t i = 0; i < l->lanes_len; i++) {
        lk_chart_text(l->script, l->lane[i].name);
        fprintf(l->script, " %g, ", height_of(l, i));
    }
    fputs(l->watched ? "'the server' 1)\n" : "'' 0)\n", l->script);
}

static void plot(const lanes *l)
{
    static const char *const boxes[][2] = {{"faults", LK_COLOUR_FAULT},      {"waits", LK_COLOUR_WAITS},
                                           {"believes", LK_COLOUR_BELIEVES}, {"holds", LK_COLOUR_HOLDS},
                                           {"shares", LK_COLOUR_SHARES},     {"two", LK_COLOUR_TWO},
                                           {"server", LK_COLOUR_SERVER}};
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++)
        fprintf(l->script, "%s$%s using 1:2:3:4:5:6 with boxxyerror fillcolor rgb '%s'",
                i == 0 ? "plot " : ", ", boxes[i][0], boxes[i][1]);
    fputs(", $slots using 1:2:3 with labels textcolor rgb '#ffffff' font ',11'"
          ", $names using 1:2:3 with labels textcolor rgb '#ffffff' font ',11'"
          ", $told using 1:2 with points pointtype 10 pointsize 1.1 linecolor rgb '#000000'"
          ", $taken using 1:2 with points pointtype 6 pointsize 0.8 linewidth 2 linecolor rgb '#000000'"
          ", $refused using 1:2 with points pointtype 2 pointsize 0.9 linewidth 2 linecolor rgb '#d40000'\n",
          l->script);
}

static void draw(lanes *l, const lk_trace *trace, const lk_comparison *found)
{
    for (size_t i = 0; i < l->events_len && !l->watched; i++)
        l->watched = l->events[i].op == LK_OP_SERVER && of_key(l, &l->events[i]);
    l->script = lk_chart_begin(l->page, (int)(l->lanes_len + l->watched) * LANE_HEIGHT + FRAME_HEIGHT);
    if (!l->script)
        return;
    char title[200];
    snprintf(title, sizeof title, "%s of %d%s", trace->title, found->runs,
             l->cut ? ", only the beginning" : "");
    set_axes(l, title);
    name_faults(l);
    put_calls(l);
    put_slots(l);
    put_overlaps(l);
    put_server(l, false);
    put_server(l, true);
    put_faults(l);
    put_marks(l);
    plot(l);
    snprintf(title, sizeof title, "Lanes over time: %s. Two held at once for %.0f ms", trace->title,
             (double)l->report->keys[l->key].figures.overlap_ns / 1e6);
    lk_chart_end(l->page, l->script, title);
}

static lk_report *check(lk_page *page, const lk_trace *trace)
{
    const lk_check_options options = LK_CHECK_OPTIONS_INIT;
    lk_report *report = trace->history ? lk_history_check(trace->history, &options) : NULL;
    if (trace->history && !report)
        lk_page_fail(page, "out of memory");
    return report;
}

/* The run in which two held longest; the first when in none. */
static const lk_trace *choose(lk_page *page, const lk_result *result)
{
    const lk_trace *chosen = NULL;
    int64_t longest = -1;
    for (size_t i = 0; i < result->traces_len; i++) {
        lk_report *report = check(page, &result->traces[i]);

        if (report && report->total.overlap_ns > longest) {
            longest = report->total.overlap_ns;
            chosen = &result->traces[i];
        }
        lk_report_free(report);
    }
    return chosen;
}

/* What there is to draw of a backend; answers the run, NULL: nothing, for lanes of one worker tell
 * nothing. */
static const lk_trace *find_all(lanes *l, lk_page *page, const lk_row *row, size_t column)
{
    const lk_trace *trace = row->no_lanes ? NULL : choose(page, &row->results[column]);
    *l = (lanes){.page = page};
    if (!trace || lk_history_keys(trace->history) == 0)
        return NULL;
    l->history = trace->history;
    l->events = lk_history_events(trace->history, &l->events_len);
    find_key(l);
    find_times(l);
    return l->lanes_len > 1 ? trace : NULL;
}

bool lk_page_has_lanes(lk_page *page, const lk_row *row, size_t column)
{
    lanes l;
    return find_all(&l, page, row, column) != NULL;
}

void lk_page_lanes(lk_page *page, const lk_comparison *found, const lk_row *row)
{
    int64_t longest = 0; /* what one shows in so many seconds, the others show in as many */
    lanes l;
    for (size_t i = 0; i < found->columns_len; i++)
        if (find_all(&l, page, row, i) && l.to - l.from > longest)
            longest = l.to - l.from;
    fputs("<div class=\"charts\">\n", page->html);
    for (size_t i = 0; i < found->columns_len; i++) {
        const lk_trace *trace;
        lk_report *report = (trace = find_all(&l, page, row, i)) ? check(page, trace) : NULL;

        if (!report)
            continue;
        l.report = report;
        l.axis_to = l.from + longest;
        fprintf(page->html, "<div id=\"lanes-%s-%zu\">", row->name, i);
        draw(&l, trace, found);
        fputs("</div>\n", page->html);
        lk_report_free(report);
    }
    fputs("</div>\n", page->html);
}
