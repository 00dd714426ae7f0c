/* resp.c: the length of a message of Redis' protocol; see resp.h. */
#include "resp.h"

#include <stdlib.h>
#include <string.h>

size_t lk_resp_length(const char *data, size_t len)
{
    const char *end = memmem(data, len, "\r\n", 2);
    size_t head, used;
    long count;

    if (end == NULL)
        return 0;
    head = (size_t)(end - data) + 2;
    count = strtol(data + 1, NULL, 10);
    switch (data[0]) {
    case '+':
    case '-':
    case ':':
        return head;
    case '$':
        used = head + (count < 0 ? 0 : (size_t)count + 2);
        return used <= len ? used : 0;
    case '*':
        for (used = head; count > 0; count--) {
            size_t one = used < len ? lk_resp_length(data + used, len - used) : 0;

            if (one == 0)
                return 0;
            used += one;
        }
        return used;
    default:
        return len;
    }
}
