/* use_mock.c: a lock on the mock, from the installed library. */
#include <locker/mock.h>

int main(void)
{
    locker_handle *held = NULL;
    locker_mock *mock;
    locker *l;
    char left[100];
    int failed = 1;
    if (locker_mock_new(NULL, &mock, NULL) != LOCKER_OK)
        return 1;
    if (locker_mock_open(mock, "consumer", NULL, &l, NULL) == LOCKER_OK &&
        locker_lock(l, "orders/42", NULL, &held, NULL) == LOCKER_OK) {
        failed =
            locker_mock_advance(mock, 3600000) != LOCKER_OK || locker_handle_state(held) != LOCKER_STATE_HELD;
        locker_handle_free(held);
        failed |= locker_mock_verify(mock, left, sizeof left) != 0;
    }
    (void)locker_close(l);
    locker_mock_free(mock);
    return failed;
}
