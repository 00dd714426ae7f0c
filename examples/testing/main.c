/* main.c: the program: works off the orders that it is given, with the lock service of the environment. */
#include <stdio.h>

#include "orders.h"

static void send_invoice(const char *order, void *user)
{
    (void)user;
    (void)printf("%s: the invoice goes out\n", order);
}

int main(int argc, char **argv)
{
    order_books books = {0, 0};
    locker_error problem;
    locker *l;
    if (locker_open_default(NULL, &l, &problem) != LOCKER_OK) {
        (void)fprintf(stderr, "%s\n", problem.text);
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        if (order_process(l, argv[i], &books, send_invoice, NULL, &problem) == ORDER_FAILED)
            (void)fprintf(stderr, "%s: %s\n", argv[i], problem.text);
    }
    (void)printf("%d in the books\n", books.entries);
    (void)locker_close(l);
    return books.entries == argc - 1 ? 0 : 1;
}
