/* page_parts.h: what the parts of the HTML page share. page.c writes the file, page_html.c its words and
 * tables; page_samples.c and page_lanes.c say what the plots show, page_chart.c has gnuplot draw them,
 * page_text.c is how text gets there, and page_style.c is the look. */
#pragma once

#include "report.h"

/** The page while it is made. */
typedef struct {
    FILE *html;
    char *why; /**< why it can't be made; empty: it can */
    size_t why_size;
} lk_page;

/** The page can't be made; the first reason counts. */
void lk_page_fail(lk_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Text, so that it stays text: what HTML would read as its own is escaped. */
void lk_page_text(lk_page *page, const char *text);

/** The whole document. */
void lk_page_document(lk_page *page, const lk_comparison *found);

/** The style sheet. Static text. */
const char *lk_page_style(void);

/** Plots and a table of a row's samples: distributions where there are many, else each as a point. */
void lk_page_samples(lk_page *page, const lk_comparison *found, const lk_row *row);

/** Whether there are lanes for a backend, the one of this column. */
bool lk_page_has_lanes(lk_page *page, const lk_row *row, size_t column);

/** Lanes of who asked for a lock and who held it, one plot for each backend, all of a row over the same time.
 * Each is in an element with the id lanes-ROW-COLUMN. */
void lk_page_lanes(lk_page *page, const lk_comparison *found, const lk_row *row);

/** The colours of the lanes, as the key above them names them. */
#define LK_COLOUR_WAITS    "#c9d3df"
#define LK_COLOUR_HOLDS    "#2f6db3"
#define LK_COLOUR_SHARES   "#63b7d6"
#define LK_COLOUR_BELIEVES "#e8a33d"
#define LK_COLOUR_TWO      "#d40000"
#define LK_COLOUR_SERVER   "#4f9d69"
#define LK_COLOUR_FAULT    "#f6dfc4"

/* ------------------------------------------------------------------ charts ---- */

/** The width in px at which text is as large as on the page. */
enum { LK_CHART_WIDTH = 640 };

/** Begin a plot: what is written to the file that is answered is gnuplot's script. NULL: the page failed. */
FILE *lk_chart_begin(lk_page *page, int height);

/** Text as gnuplot takes it, in quotes. */
void lk_chart_text(FILE *script, const char *text);

/** Have it drawn, and put it into the page as a picture that this text describes. Closes the script. */
void lk_chart_end(lk_page *page, FILE *script, const char *described);
