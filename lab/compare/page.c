/* page.c: the comparison as one self-contained HTML page: the file; see report.h and page_parts.h. */
#include "page_parts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "servers/process.h"

bool lk_comparison_can_write_html(char *why, size_t why_size)
{
    if (lk_program_exists("gnuplot"))
        return true;
    snprintf(why, why_size, "its plots need the program gnuplot; install the package gnuplot-nox");
    return false;
}

static bool put(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "we");
    const bool written = file && fwrite(text, 1, size, file) == size;
    return file && fclose(file) == 0 && written;
}

/* A file is replaced in one step; what is none, such as a pipe, is written to. */
static bool replace(const char *path, const char *text, size_t size)
{
    struct stat now;
    if (stat(path, &now) == 0 && !S_ISREG(now.st_mode))
        return put(path, text, size);
    char real[PATH_MAX];
    if (!realpath(path, real))
        snprintf(real, sizeof real, "%s", path);
    char beside[PATH_MAX + 32];
    snprintf(beside, sizeof beside, "%s.%d", real, (int)getpid());
    if (put(beside, text, size) && rename(beside, real) == 0)
        return true;
    const int error = errno;
    remove(beside);
    errno = error;
    return false;
}

bool lk_comparison_write_html(const lk_comparison *comparison, const char *file, char *why, size_t why_size)
{
    char *text = NULL;
    size_t size = 0;
    lk_page page = {.html = open_memstream(&text, &size), .why = why, .why_size = why_size};
    why[0] = '\0';
    if (!page.html) {
        lk_page_fail(&page, "out of memory");
        return false;
    }
    lk_page_document(&page, comparison);
    if (fclose(page.html) != 0)
        lk_page_fail(&page, "out of memory");
    if (!why[0] && !replace(file, text, size))
        lk_page_fail(&page, "%s", strerror(errno));
    free(text);
    return !why[0];
}
