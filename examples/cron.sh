#!/bin/sh
# cron.sh: a job that never runs twice at once, on one host or, with Redis, on a whole group of them.
#
# In a crontab:
#     PATH=/usr/local/bin:/usr/bin:/bin
#     LOCKER_URI=redis://redis.example/0?namespace=jobs
#     17 3 * * *  /usr/local/bin/cron.sh
#
# Without LOCKER_URI the lock is a file of this user on this host.

# --nonblock: when the last run still holds the lock, this one ends at once with code 75, and prints nothing.
# --ttl: when this host dies, the others can run the job after a minute. While it runs, the lock is renewed.
# --kill-after: when the lock is lost, the job gets TERM, and KILL at the latest just before others can have it.
locker run --nonblock --ttl 1m --kill-after 10s jobs/nightly -- \
    sh -c 'echo "nightly job: running with fencing token $LOCKER_TOKEN"'

code=$?
case $code in
    0) ;;
    75) code=0 ;; # another run holds the lock: no error, and a word printed would be a mail of cron's
    76) echo "nightly job: stopped, the lock was lost" >&2 ;;
    *) echo "nightly job: failed with $code" >&2 ;;
esac
exit $code
