/* list.c: what the library tells of each driver, on stderr where it is, and whether the modules can be
 * loaded. */
#include <stdio.h>

#include <locker/driver.h>

static void print(const locker_driver_info *d)
{
    const locker_semantics *s = d->semantics;
    printf("%s: schemes %s; example %s; features %s; %s, %d %d %d %d %d %d %d\n", d->name, d->schemes,
           d->example, d->features, s->driver, (int)s->scope, (int)s->fairness, s->leases, s->tokens_persist,
           s->survives_restart, s->can_break, s->quorum);
    printf("%s: %s|%s|%s|%s|%s|%s|%s\n", d->name, s->holder_dies, s->holder_stalls, s->cut_off,
           s->service_restarts, s->failover, s->token, s->cost);
    for (const locker_parameter *p = d->parameters; p->name != NULL; p++)
        printf("%s: parameter %s %s '%s' %lld %lld %s\n", d->name, p->name, locker_param_kind_name(p->kind),
               p->initial != NULL ? p->initial : "", (long long)p->min, (long long)p->max, p->help);
}

int main(void)
{
    locker_driver_info info;
    locker_error err;
    for (size_t i = 0; locker_driver_at(i, &info); i++) {
        fprintf(stderr, "%s %s\n", info.name, info.module != NULL ? info.module : "-");
        if (info.problem != NULL) {
            printf("%s: %s\n", info.name, info.problem);
            return 1;
        }
        print(&info);
    }
    for (size_t i = 0; locker_driver_at(i, &info); i++)
        if (info.module != NULL && locker_driver_find(info.name, NULL, &err) != LOCKER_OK)
            printf("%s: %s\n", info.name, err.text);
    return 0;
}
