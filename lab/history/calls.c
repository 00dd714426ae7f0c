/* calls.c: each call for a lock and what came of it, for those who draw or list a history. */
#include "internal.h"

const char *lk_history_key_name(const lk_history *history, size_t key)
{
    return history->keys[key].first->key;
}

size_t lk_history_calls(const lk_history *history, size_t key)
{
    return history->keys[key].attempt_count;
}

lk_call lk_history_call(const lk_history *history, size_t key, size_t index)
{
    const lk_attempt *attempt = history->keys[key].attempts[index];
    const bool granted = lk_granted(attempt);
    return (lk_call){.asked = attempt->asked,
                     .answered = attempt->answered,
                     .lost = attempt->lost,
                     .unlock = attempt->unlock,
                     .ended = attempt->process->ended,
                     .granted = granted,
                     .from = granted ? attempt->from : 0,
                     .to = granted ? attempt->to : 0};
}
