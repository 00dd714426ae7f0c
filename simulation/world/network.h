/*
 * network.h: simulated connections between processes and services. Bytes arrive in order, in pieces that are drawn, after
 * times that are drawn; a way may be clogged in one direction or both, when what is on it waits; a connection may be reset, a
 * service be away or be gone without a word.
 */
#pragma once

#include <stdint.h>

#include "fibers.h"

typedef struct lk_sim_connection lk_sim_connection;

/** A service that listens at a name and a port. Its functions are called outside of all fibers. */
typedef struct {
    const char *host;
    const char *alias; /**< it is found by this name, too; NULL: it has none */
    int port;
    bool refuses; /**< nobody listens: who connects is told so */
    bool
        silent; /**< the host is gone, or stands still: nothing that is sent is taken, until it isn't any more */
    void *self;
    /** Somebody connects. What is returned is given to the others; NULL: refused. */
    void *(*accepted)(void *self, lk_sim_connection *connection);
    void (*received)(void *session, const char *bytes, size_t count);
    /** The client has closed it, or it was reset: no word about the connection follows. */
    void (*closed)(void *session);
} lk_sim_service;

/** The service's end sends, and closes. */
void lk_sim_connection_send(lk_sim_connection *connection, const char *bytes, size_t count);
void lk_sim_connection_close(lk_sim_connection *connection);
/** Whose the other end is. */
lk_sim_process *lk_sim_connection_process(const lk_sim_connection *connection);
/** When the client sent what the service has received last. */
int64_t lk_sim_connection_sent_at(const lk_sim_connection *connection);
/** ... and its number among all that clients send. */
uint64_t lk_sim_connection_sent_number(const lk_sim_connection *connection);
/** Called when a client sends the bytes of that number. NULL: nobody wants to know. */
extern void (*lk_sim_network_sent)(uint64_t number);
/** A mark behind so many bytes of what the service sends next; and what is called when the client has read them. NULL as above. */
void lk_sim_connection_mark(lk_sim_connection *connection, size_t behind, uint64_t number);
extern void (*lk_sim_network_read)(uint64_t mark);

/** The way between a process and a service. */
typedef struct {
    int64_t delay_ns;              /**< each piece takes so long at least */
    int64_t jitter_ns;             /**< ... and up to so much longer */
    bool clogged_to, clogged_from; /**< the service; what is on the way waits */
    bool is_bad;                   /**< a fault of it lasts */
} lk_sim_way;

void lk_sim_network_begin(void);
void lk_sim_network_add(lk_sim_service *service);
/** The address at which it is found, too, as a text. */
void lk_sim_network_address(const lk_sim_service *service, char *text, size_t size);
lk_sim_way *lk_sim_way_of(const lk_sim_process *process, const lk_sim_service *service);
/** After a way, or a service's `silent`, has changed: what waited goes on. */
void lk_sim_network_goes_on(void);
/** What is sent next in one direction of one of its connections, of any number, is lost, and sent again after so long; what
 * follows waits for it. False: it has none. */
bool lk_sim_network_lose(const lk_sim_process *process, unsigned number, bool to_service, int64_t span_ns);
/** Called before a service sends something to a process, which is on its way then. NULL: nobody wants to know. */
extern void (*lk_sim_network_answers)(lk_sim_process *process);
/** What the service sends there from now on is that late at least. */
void lk_sim_connection_delay(lk_sim_connection *connection, int64_t span_ns);
/** Both ends of all connections between these are told ECONNRESET, or an end. NULL: any. */
void lk_sim_network_reset(const lk_sim_process *process, const lk_sim_service *service);
/** Whether the process has a connection there, as far as it knows. */
bool lk_sim_network_is_connected(const lk_sim_process *process, const lk_sim_service *service);
void lk_sim_network_end(void);

/** For the trace: the texts in these bytes, with a point for all between them; as much as there is room for. */
void lk_sim_readable(char *text, size_t room, const unsigned char *bytes, size_t count);
