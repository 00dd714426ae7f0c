/* page_chart.c: plots, drawn by the program gnuplot as SVG and put into the page as pictures that need
 * nothing else; see page_parts.h. A picture in a data: address keeps its names to itself: gnuplot uses the
 * same ones in each. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "page_parts.h"
#include "servers/process.h"

static FILE *in_memory(lk_page *page)
{
    const int fd = memfd_create("chart", MFD_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");
    if (!file) {
        lk_page_fail(page, "cannot keep a plot in memory: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
    }
    return file;
}

FILE *lk_chart_begin(lk_page *page, int height)
{
    FILE *script = page->why[0] ? NULL : in_memory(page);
    if (script)
        fprintf(script,
                "set terminal svg size %d,%d noenhanced font 'sans-serif,13' background '#ffffff'\n"
                "set border linecolor rgb '#808080'\nset tics textcolor rgb '#202020'\n",
                LK_CHART_WIDTH, height);
    return script;
}

void lk_chart_text(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', script);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, script);
    }
    fputc('\'', script);
}

static void put_base64(FILE *from, FILE *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char three[3];
    size_t got;
    while ((got = fread(three, 1, 3, from)) > 0) {
        const unsigned bits = (unsigned)three[0] << 16 | (got > 1 ? (unsigned)three[1] << 8 : 0) |
                              (got > 2 ? (unsigned)three[2] : 0);

        fputc(digits[bits >> 18], out);
        fputc(digits[bits >> 12 & 63], out);
        fputc(got > 1 ? digits[bits >> 6 & 63] : '=', out);
        fputc(got > 2 ? digits[bits & 63] : '=', out);
    }
}

/* -d: not by what the user's own settings say. */
static bool draw(lk_page *page, FILE *script, FILE *drawn, FILE *said)
{
    static const char *const argv[] = {"gnuplot", "-d", NULL};
    const lk_start start = {.argv = argv, .in = fileno(script), .out = fileno(drawn), .err = fileno(said)};
    char line[256] = "";
    int status = 0;
    rewind(script); /* flushes, too */
    const pid_t pid = lk_process_start(&start);
    if (pid < 0) {
        lk_page_fail(page, "cannot start gnuplot: %s; install the package gnuplot-nox", strerror(errno));
        return false;
    }
    waitpid(pid, &status, 0);
    rewind(drawn);
    rewind(said);
    while (fgets(line, sizeof line, said) && strspn(line, " \t\n^") == strlen(line))
        ;
    line[strcspn(line, "\n")] = '\0';
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        lk_page_fail(page, "gnuplot failed: %s", line[0] ? line : "it gave no reason");
    return !page->why[0];
}

void lk_chart_end(lk_page *page, FILE *script, const char *described)
{
    if (!script)
        return;
    FILE *drawn = in_memory(page);
    FILE *said = in_memory(page);
    if (drawn && said && draw(page, script, drawn, said)) {
        fputs("<img alt=\"", page->html);
        lk_page_text(page, described);
        fputs("\" src=\"data:image/svg+xml;base64,", page->html);
        put_base64(drawn, page->html);
        fputs("\">\n", page->html);
    }
    if (said)
        fclose(said);
    if (drawn)
        fclose(drawn);
    fclose(script);
}
