/*
 * scope.c: a lock that ends with the scope it was taken in.
 *
 * LOCKER_AUTO unlocks when its variable goes out of scope, whichever way the scope is left. It works with gcc
 * and clang; elsewhere call locker_handle_free() yourself.
 */
#include <stdio.h>
#include <stdlib.h>

#include <locker/locker.h>

/* Pay an order once. There are three ways out of this function, and none needs to remember the lock. */
static int pay(locker *l, const char *order, int amount)
{
    LOCKER_AUTO locker_handle *held = NULL; /* must be initialised: a scope left early frees NULL */
    locker_error err;

    if (locker_lock(l, order, NULL, &held, &err) != LOCKER_OK) {
        fprintf(stderr, "not locked: %s\n", err.text);
        return -1;
    }
    if (amount <= 0) {
        printf("%s: nothing to pay\n", order);
        return 0; /* unlocks */
    }
    printf("%s: paid %d, alone\n", order, amount);
    return 1; /* unlocks */
}

int main(void)
{
    locker *l;
    locker_error err;
    /* The service that LOCKER_URI or LOCKER_CONFIG names; without either, files in a directory of this
     * user. */
    if (locker_open_default(NULL, &l, &err) != LOCKER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    int failed = pay(l, "orders/42", 100) != 1 || pay(l, "orders/42", 0) != 0;

    locker_handle *held;
    /* Proof that nothing was left locked: a try answers at once, and takes it. */
    if (locker_try_lock(l, "orders/42", NULL, &held, &err) == LOCKER_OK) {
        printf("orders/42 is free again\n");
        locker_handle_free(held); /* without LOCKER_AUTO: unlocks, if that was not done, and frees */
    } else {
        fprintf(stderr, "%s\n", err.text);
        failed = 1;
    }
    locker_close(l);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
