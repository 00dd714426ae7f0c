/* member.c: whether a member's reads are current. Before etcd 3.4.42, 3.5.28 and 3.6.9, a member that was
 * stopped for a while may answer a read with data from before the request (etcd#20418). The only member of
 * a cluster cannot, because no other member has written meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "state.h"

uint64_t lk_etcd_prover_locked(const lk_etcd_net *net)
{
    return net->prover;
}

void lk_etcd_answered_by_locked(lk_etcd_net *net, uint64_t member)
{
    if (member != net->prover)
        net->prover = 0;
}

/* Return true if reads of this version are current. A pre-release counts as old. */
static bool is_mended(const char *version)
{
    static const long patches[] = {42, 28, 9}; /* the first patch of 3.4, 3.5 and 3.6 with current reads */
    enum { FIRST_MINOR = 4, MINORS = sizeof patches / sizeof *patches };
    long numbers[3];
    const char *at = version;
    for (size_t i = 0; i < 3; i++) {
        char *end;
        numbers[i] = strtol(at, &end, 10);
        if (end == at || numbers[i] < 0 || (i < 2 && *end != '.'))
            return false;
        at = end + (i < 2);
    }
    const long minor = numbers[1] - FIRST_MINOR;
    if (*at == '-' || numbers[0] != 3)
        return *at != '-' && numbers[0] > 3;
    return minor >= 0 && (minor >= MINORS || numbers[2] >= patches[minor]);
}

/* Take the list of members. An etcd grpc-proxy may list only itself, but it is no member. */
LK_UNCHECKED static void members_told_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply)
{
    lk_etcd_net *const net = context;
    const LkEtcdPb__MembersTold *const told = (const LkEtcdPb__MembersTold *)(const void *)reply->message;
    (void)e;
    const bool is_alone = reply->status == LK_ETCD_OK && told->header != NULL && told->n_members == 1 &&
                          told->members[0]->id != 0 && told->members[0]->id == told->header->member_id;
    if (!net->is_mended) /* else the version was known before the answer came */
        net->prover = is_alone ? told->header->member_id : 0;
}

LK_UNCHECKED static void status_told_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply)
{
    lk_etcd_net *const net = context;
    const LkEtcdPb__StatusTold *const told = (const LkEtcdPb__StatusTold *)(const void *)reply->message;
    (void)e;
    net->is_mended = reply->status == LK_ETCD_OK && told->header != NULL && is_mended(told->version);
    net->prover = net->is_mended ? told->header->member_id : 0;
    if (reply->status != LK_ETCD_LOST)
        lk_etcd_count_members_locked(net);
}

void lk_etcd_ask_of_member_locked(lk_etcd_net *net)
{
    const LkEtcdPb__Status status = LK_ETCD_PB__STATUS__INIT;
    net->prover = 0;
    net->is_mended = false;
    (void)lk_etcd_send_locked(net, &lk_etcd_status, &status.base, status_told_locked, net);
}

void lk_etcd_count_members_locked(lk_etcd_net *net)
{
    const LkEtcdPb__MemberList list = LK_ETCD_PB__MEMBER_LIST__INIT;
    if (!net->is_mended)
        (void)lk_etcd_send_locked(net, &lk_etcd_member_list, &list.base, members_told_locked, net);
}
