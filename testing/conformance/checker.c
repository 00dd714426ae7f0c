/* checker.c: the checker before a driver, and for the time of a test; see contract_checker.h. */
#include "checker_internal.h"

const locker_driver *lk_checker_driver(const locker_driver *driver)
{
    static locker_driver table;
    lk_checker_tested = driver;
    if (!lk_checker_claims_init())
        return NULL;
    lk_checker_fill(&table, driver);
    return &table;
}

void lk_checker_begin(void)
{
    lk_checker_reports_begin();
    lk_checker_trap();
}

void lk_checker_end(void)
{
    lk_checker_untrap();
}
