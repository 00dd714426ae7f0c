/* state.h: what the files of this floor share: the connection, and their functions, by the files in their order. What is
 * the upper floor's too is in net.h.
 *
 * The library has a few variables of the process, which several lockers of one process use without a common lock. The
 * buffers of its log texts always end with a NUL and go nowhere. The request number is ours where the library is an archive
 * (request_number.c). Where it is shared, the number is the library's own: that it is given twice or out of order does no
 * harm, because each handle compares it only with its own oldest's. But after 2.5e9 requests it comes to reserved values, and
 * the process crashes (ZOOKEEPER-3286). */
#pragma once

#include "hosts.h"
#include "lk_sigpipe.h"
#include "lk_table.h"
#include "net.h"
#include "tls_sasl.h"
#include "validity.h"

/* What open was told of the servers, and of the session with them; constant afterwards. */
typedef struct {
    lk_hosts *hosts;
    const char *names; /* theirs, for people: host:port,host:port */
    char *credentials; /* of digest: user:password, wiped when freed; NULL: none */
    lk_zk_library library;
    char *tls;               /* TLS: its files, as the library takes them; NULL: none */
    lk_zk_sasl_params *sasl; /* a login by SASL; NULL: none */
    int64_t session_ns;      /* the session time-out that is asked for */
    int64_t tick_ns;         /* of the servers; 0: it was not told */
    int64_t connect_timeout_ns;
} lk_zk_settings;

/* A part of connecting that may block (drive.c). What isn't guarded is constant meanwhile, or the thread's. */
typedef struct {
    bool active LK_ZK_GUARDED; /* a thread is in it, and has the handle alone; lk_zk_net.reading is set */
    bool joinable LK_ZK_GUARDED;
    pthread_t thread;
    zhandle_t *zh; /* lk_zk_net.zh */
    int events;    /* for zookeeper_process */
    int socket;    /* the library's; lk_zk_net.fd is -1 meanwhile */
    int own;       /* a duplicate, whose number nobody else can get when the library closes its own */
    int event_state; /* what the library told meanwhile, kept by the thread for when it has the mutex; 0: nothing */
    int64_t until LK_ZK_GUARDED; /* the server has until then; LOCKER_NEVER: it has had its time */
    bool ended LK_ZK_GUARDED;    /* by us */
} lk_zk_blocking;

struct LK_CHECKED(capability("mutex")) lk_zk_net {
    lk_zk *z;
    const lk_zk_owner *owner;
    const locker_services *svc;
    const locker_clock *clock;
    lk_zk_settings set;
    bool literal; /* no host has to be resolved */
    int epoll_fd; /* the driver's descriptor: holds the socket */
    int kick_fd;  /* eventfd, ends the driving thread's poll */

    lk_mutex mutex; /* guards all below, and what the owner has */

    /* the session */
    zhandle_t *zh LK_ZK_GUARDED;        /* NULL: none */
    char *addresses LK_ZK_GUARDED;      /* numeric; of the last resolution */
    bool up LK_ZK_GUARDED;              /* connected, and served */
    bool came_up LK_ZK_GUARDED;         /* ... since the last settling */
    bool over LK_ZK_GUARDED;            /* it has ended: to be dropped by the driving thread */
    bool denied LK_ZK_GUARDED;          /* the server refused our credentials, or TLS can't use its files */
    bool bad_files LK_ZK_GUARDED;       /* ... the latter */
    bool refused_parents LK_ZK_GUARDED; /* the server knows no containers */
    int64_t session_id LK_ZK_GUARDED;   /* of the client library; 0 until connected */
    int64_t timeout_ns LK_ZK_GUARDED;   /* negotiated */
    int64_t begun_at LK_ZK_GUARDED;     /* the present connection, or attempt to make one */
    lk_zk_validity validity LK_ZK_GUARDED;
    int64_t away_since LK_ZK_GUARDED; /* when the connection was lost; 0: there was an answer since */
    int64_t up_since LK_ZK_GUARDED;   /* when it last came up */
    int64_t begin_at LK_ZK_GUARDED;   /* a handle that could not be made is tried again then */
    bool looking_up LK_ZK_GUARDED;    /* the hosts' addresses, in a thread */
    int64_t looked_up_at LK_ZK_GUARDED;
    lk_zk_blocking blocking;
    bool login_begun LK_ZK_GUARDED;      /* by SASL, on the present connection */
    char tls_trouble[128] LK_ZK_GUARDED; /* why the last handshake failed; "" if none did since it was up */
    lk_sigpipe sigpipe LK_ZK_GUARDED;    /* while a request is handed to the library */

    /* driving */
    int fd LK_ZK_GUARDED;             /* the socket; -1: none */
    int no_socket LK_ZK_GUARDED;      /* errno if this process could make none lately; 0 */
    int corked_fd LK_ZK_GUARDED;      /* the socket, while it holds back what is sent; else -1 */
    int interest LK_ZK_GUARDED;       /* ZOOKEEPER_READ and _WRITE, as last asked */
    int64_t attempt_at LK_ZK_GUARDED; /* when the present attempt to connect began */
    int attempt_error LK_ZK_GUARDED;  /* errno by which it failed; 0: it has not, or in another way */
    int parent_rc LK_ZK_GUARDED;      /* why the latest parent was not made; ZOK: it was, or was there */
    int64_t turn_at LK_ZK_GUARDED;    /* when the client library wants to be called at the latest */
    bool reading LK_ZK_GUARDED;       /* a thread drives */
    bool polling LK_ZK_GUARDED;       /* ... and is asleep in poll: kick it */
    bool in_turn LK_ZK_GUARDED;       /* the keeper has come: its turn will return keeper_at */
    bool waits_it_out LK_ZK_GUARDED;  /* this attempt lasts until the deadline of what is held */
    unsigned silent LK_ZK_GUARDED;    /* attempts to connect, in a row, that had no answer */
    bool asked_in_vain LK_ZK_GUARDED; /* the latest question about what is watched left some of it open */
    int armed_fd LK_ZK_GUARDED;       /* descriptor that the keeper's epoll watches, or -1 */
    int64_t left_at LK_ZK_GUARDED;    /* when a caller last drove */
    int64_t keeper_at LK_ZK_GUARDED;  /* when the keeper means to come */
    size_t awaited LK_ZK_GUARDED;     /* how many of the owner's wait for an event */
    lk_list calls LK_ZK_GUARDED;      /* callers that wait */
    lk_list requests LK_ZK_GUARDED;   /* that await their answer, the latest first */
    lk_list spare LK_ZK_GUARDED;      /* requests to be used again */
    size_t in_flight LK_ZK_GUARDED;   /* length of `requests` */
    lk_list line LK_ZK_GUARDED;       /* calls that wait for room, the first in front */
    size_t let_in LK_ZK_GUARDED;      /* calls that have room, and have not sent yet */
    int64_t heard LK_ZK_GUARDED; /* when the latest request was sent that this connection answered; 0: none */
    int64_t took_ns LK_ZK_GUARDED;    /* from sending to answer: of the latest request */
    int64_t fastest_ns LK_ZK_GUARDED; /* ... and the least of those that were ordered; 0: not known */
    lk_table watches LK_ZK_GUARDED;
    lk_list unasked LK_ZK_GUARDED; /* of those, what goes along with the next request */
};

/* Whether what we make is to be ours alone. */
static inline bool lk_zk_logs_in(const lk_zk_settings *s)
{
    return s->credentials != NULL || s->sasl != NULL;
}

/* For clang's analysis the connection is what is held, because the upper floor sees nothing of its mutex. */
static inline void lk_zk_net_unlock(lk_zk_net *net) LK_RELEASE(*net) LK_UNCHECKED
{
    lk_mutex_unlock(&net->mutex);
}

/* Keeps SIGPIPE from the application while OpenSSL may write, which does so by write(). Nothing without TLS. */
static inline void lk_zk_sigpipe_block(const lk_zk_net *net, lk_sigpipe *guard)
{
    if (net->set.tls != NULL)
        lk_sigpipe_block(guard);
}

static inline void lk_zk_sigpipe_restore(const lk_zk_net *net, const lk_sigpipe *guard)
{
    if (net->set.tls != NULL)
        lk_sigpipe_restore(guard);
}

static inline int64_t lk_zk_net_now(const lk_zk_net *net)
{
    return net->clock->now(net->clock->context);
}

/* ---------------------------------------------------------------- what open was told: settings.c ---- */
/* On settings that are all zero. Clear them also when it fails. */
locker_status lk_zk_settings_init(lk_zk_settings *s, const locker_driver_config *config, locker_error *err);
void lk_zk_settings_clear(lk_zk_settings *s);

/* ---------------------------------------------------------------- addresses, and who listens there: resolve.c, diagnose.c ---- */
/* The hosts' numeric addresses, a comma list as the client library reads it; malloc'ed. Blocks while names are resolved. */
locker_status lk_zk_resolve(const lk_hosts *h, char **addresses, locker_error *err);
/* What lk_hosts_lookup_start() has found, likewise; NULL: it has failed. False: there is none yet. */
bool lk_zk_lookup_take(lk_hosts *h, char **addresses);
unsigned lk_zk_address_count(const char *addresses);
/* Ask each of the numeric addresses (a comma list) what listens there, and fill the error with what was found first of: it is
 * full, it is no ZooKeeper server, it is one that serves nobody, it is silent, it can't be reached. Takes up to 0.6 s, and
 * waits without a lock. by_tls: what is asked in plain words is left out. */
locker_status lk_zk_diagnose(const locker_clock *clock, const char *addresses, bool by_tls,
                             locker_error *err);

/* ---------------------------------------------------------------- the socket, and who is to look at it: socket.c ---- */
/* Have what is sent wait for more: the library writes each request in two, and every piece costs a turn. */
void lk_zk_cork_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* The library has closed its socket. */
void lk_zk_no_socket_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Have whoever drives look again: the connection has changed. */
void lk_zk_kick_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Have the keeper's epoll tell of the socket once; and not any more. */
void lk_zk_arm_socket_locked(lk_zk_net *net) LK_REQUIRES(*net);
void lk_zk_disarm_socket_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* What it tells of the socket now, without waiting: directions, as the client library wants them. 0: nothing. */
int lk_zk_told_of_socket_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* What poll or epoll tells, likewise. */
int lk_zk_directions_locked(const lk_zk_net *net, uint32_t ready) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- whether it is up, and who waits for that: connection.c ---- */
/* The library told that the session is in this state. */
void lk_zk_session_event_locked(lk_zk_net *net, int state) LK_REQUIRES(*net);
void lk_zk_went_down_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* Whether it is not known why there is no connection. */
bool lk_zk_is_unexplained_locked(const lk_zk_net *net) LK_REQUIRES(*net);
/* How long a server has for its part of connecting. LOCKER_NEVER: as long as the client library gives it. */
int64_t lk_zk_patience_locked(const lk_zk_net *net, int64_t now) LK_REQUIRES(*net);
/* Whoever waits for a connection goes on: there is one, or there won't be. */
void lk_zk_calls_go_on_locked(lk_zk_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- what awaits its answer: requests.c, watch.c ---- */
/* Let in as many of the calls that wait for room as there is room for. */
void lk_zk_let_in_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* A read with a watch of the client library's. */
lk_zk_request *lk_zk_get_watched_locked(lk_zk_net *net, const char *path, watcher_fn watch,
                                        void *watch_context, lk_zk_done_fn done, void *context)
    LK_REQUIRES(*net);
/* Nobody wants its answer any more. */
void lk_zk_request_forget_locked(lk_zk_request *request);
/* The caller goes: answers to its requests find nobody. */
void lk_zk_requests_forget_locked(lk_zk_net *net, const lk_zk_call *call) LK_REQUIRES(*net);
/* Fail all that still awaits an answer: the handle was closed. */
void lk_zk_requests_fail_locked(lk_zk_net *net) LK_REQUIRES(*net);
void lk_zk_requests_free(lk_zk_net *net);
/* The end of all watches, after the handle was closed. */
void lk_zk_watches_free_locked(lk_zk_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- beginning, ending, what follows each turn: session.c ---- */
/* The servers have moved: those addresses are theirs now. */
void lk_zk_servers_set_locked(lk_zk_net *net, const char *addresses) LK_REQUIRES(*net);
/* Make a client handle when there is none. */
void lk_zk_session_begin_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* End the handle: the session is over, or not wanted any more. */
void lk_zk_session_drop_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* zookeeper_close, without SIGPIPE. */
void lk_zk_client_close_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* What the driving thread does after each turn: end a session that is over, go on after a reconnection. */
void lk_zk_session_settle_locked(lk_zk_net *net) LK_REQUIRES(*net);

/* ---------------------------------------------------------------- what may block in connecting: drive.c ---- */
/* End what is under way, and its thread. Releases the mutex meanwhile; nobody else may be using the instance. */
void lk_zk_blocking_stop_unlocking(lk_zk_net *net) LK_REQUIRES(*net);
