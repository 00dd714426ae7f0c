/* keepalive.h: a holder of etcd as many are, with which a sweep has to find two: it believes what a KeepAlive's answer says. */
#pragma once

/** A role (sweep.h): of a member's address and port, a lock's name as etcdctl writes it, and a lease's time in s. It does what the role
 * "holder" does, by etcdctl. The answers must come at once: it counts from when it hears them. */
int lk_play_keepalive(int argc, char **argv);
