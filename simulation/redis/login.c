/* login.c: commands of a connection: who uses it, its database, and whether it is alive. */
#include <ctype.h>

#include "call.h"
#include "commands.h"

static const char wrong_password[] = "-WRONGPASS invalid username-password pair or user is disabled.";

static bool log_in(lk_sr_call *call, lk_sr_text name, lk_sr_text password)
{
    lk_sr_user *user = lk_sr_users_login(&call->server->users, name, password);
    if (user == NULL)
        return false;
    call->client->login = user;
    return call->client->authenticated = true;
}

void lk_sr_auth(lk_sr_call *call)
{
    const bool named = call->argc == 3;
    if (call->argc > 3)
        lk_sr_reply_error(call->out, LK_SR_SYNTAX);
    else if (!named && lk_sr_users_default(&call->server->users)->no_password)
        lk_sr_reply_error(call->out,
                          "AUTH <password> called without any password configured for the default user. "
                          "Are you sure your configuration is correct?");
    else if (log_in(call, named ? call->argv[1] : lk_sr_word("default"), call->argv[named ? 2 : 1]))
        lk_sr_reply_status(call->out, "OK");
    else
        lk_sr_reply_error(call->out, wrong_password);
}

/* ------------------------------------------------------------------ HELLO ---- */

static void put_field(lk_sr_bytes *out, const char *name, const char *value)
{
    lk_sr_reply_bulk(out, lk_sr_word(name));
    if (value != NULL)
        lk_sr_reply_bulk(out, lk_sr_word(value));
}

static void answer_hello(lk_sr_call *call)
{
    lk_sr_reply_array(call->out, 14);
    put_field(call->out, "server", "redis");
    put_field(call->out, "version", LK_SR_VERSION);
    put_field(call->out, "proto", NULL);
    lk_sr_reply_integer(call->out, 2);
    put_field(call->out, "id", NULL);
    lk_sr_reply_integer(call->out, call->client->id);
    put_field(call->out, "mode", call->server->view != NULL ? "cluster" : "standalone");
    put_field(call->out, "role", lk_sr_is_replica(call->server) ? "replica" : "master");
    put_field(call->out, "modules", NULL);
    lk_sr_reply_array(call->out, 0);
}

/* One option of HELLO; moves `at` to its last word. False: it was answered what is wrong. */
static bool read_option(lk_sr_call *call, size_t *at)
{
    const lk_sr_text option = call->argv[*at];
    const size_t more = call->argc - *at - 1;
    if (lk_sr_is(option, "auth") && more >= 2) {
        *at += 2;
        if (log_in(call, call->argv[*at - 1], call->argv[*at]))
            return true;
        lk_sr_reply_error(call->out, wrong_password);
        return false;
    }
    if (lk_sr_is(option, "setname") && more >= 1) {
        *at += 1;
        return lk_sr_client_take_name(call, call->argv[*at]);
    }
    lk_sr_reply_error(call->out, "Syntax error in HELLO option '%.*s'", LK_SR_SHOWN(option));
    return false;
}

void lk_sr_hello(lk_sr_call *call)
{
    int64_t version = 2;
    if (call->argc > 1 && !lk_sr_integer(call->argv[1], &version)) {
        lk_sr_reply_error(call->out, "Protocol version is not an integer or out of range");
        return;
    }
    if (version != 2) {
        lk_sr_reply_error(call->out, "-NOPROTO unsupported protocol version");
        return;
    }
    for (size_t i = 2; i < call->argc; i++) {
        if (!read_option(call, &i))
            return;
    }
    if (call->client->authenticated)
        answer_hello(call);
    else
        lk_sr_reply_error(
            call->out,
            "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
            "AUTH <user> <pass> option can be used to authenticate the client and select the RESP "
            "protocol version at the same time");
}

/* ------------------------------------------------------------------ ACL ---- */

static bool is_user_name(lk_sr_text name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] == '\0' || isspace((unsigned char)name.data[i]))
            return false;
    }
    return true;
}

static bool may_hear_all(const lk_sr_user *user, const lk_sr_items *channels)
{
    for (size_t i = 0; i < channels->count; i++) {
        if (!lk_sr_user_may_hear(user, lk_sr_view(&channels->at[i].name)))
            return false;
    }
    return true;
}

/* Who has subscribed to what the user may not hear any more is closed. */
static void silence(lk_sr_call *call, const lk_sr_user *user)
{
    LK_LIST_EACH(link, &call->server->clients) {
        lk_sr_client *client = LK_CONTAINER(link, lk_sr_client, link);
        if (client->login == user && !client->closing &&
            !(may_hear_all(user, &client->channels) && may_hear_all(user, &client->shard_channels)))
            lk_sr_clients_kill(call, client);
    }
}

/* All of the rules, or none when one of them makes no sense. */
void lk_sr_acl_setuser(lk_sr_call *call)
{
    lk_sr_users *users = &call->server->users;
    lk_sr_user *user = lk_sr_users_find(users, call->argv[2]);
    lk_sr_user trial = {.commands = call->server->users.commands};
    const char *wrong = NULL;
    if (!is_user_name(call->argv[2])) {
        lk_sr_reply_error(call->out, "Usernames can't contain spaces or null characters");
        return;
    }
    if (user != NULL)
        lk_sr_user_copy(&trial, user);
    for (size_t i = 3; i < call->argc && wrong == NULL; i++) {
        wrong = lk_sr_user_rule(&trial, call->argv[i]);
        if (wrong != NULL)
            lk_sr_reply_error(call->out, "Error in ACL SETUSER modifier '%.*s': %s",
                              LK_SR_SHOWN(call->argv[i]), wrong);
    }
    if (wrong == NULL) {
        if (user == NULL)
            user = lk_sr_users_add(users, call->argv[2]);
        lk_sr_user_copy(user, &trial);
        silence(call, user);
        lk_sr_reply_status(call->out, "OK");
    }
    (void)lk_sr_user_rule(&trial, lk_sr_word("reset"));
}

void lk_sr_acl_whoami(lk_sr_call *call)
{
    lk_sr_reply_bulk(call->out, lk_sr_view(&call->client->login->name));
}

/* ------------------------------------------------------------------ others ---- */

void lk_sr_select(lk_sr_call *call)
{
    int64_t number;
    if (!lk_sr_call_integer(call, 1, &number))
        return;
    if (number < INT32_MIN || number > INT32_MAX) {
        lk_sr_reply_error(call->out, "value is out of range, value must between %d and %d", INT32_MIN,
                          INT32_MAX);
    } else if (number != 0 && call->server->view != NULL) {
        lk_sr_reply_error(call->out, "SELECT is not allowed in cluster mode");
    } else if (number < 0 || number >= LK_SR_DATABASES) {
        lk_sr_reply_error(call->out, "DB index is out of range");
    } else {
        *call->database = (unsigned)number;
        lk_sr_reply_status(call->out, "OK");
    }
}

void lk_sr_ping(lk_sr_call *call)
{
    const lk_sr_text word = call->argc > 1 ? call->argv[1] : lk_sr_word("");
    if (call->argc > 2) {
        lk_sr_reply_error(call->out, "wrong number of arguments for 'ping' command");
    } else if (!call->script && lk_sr_has_subscribed(call->client)) {
        lk_sr_reply_array(call->out, 2);
        lk_sr_reply_bulk(call->out, lk_sr_word("pong"));
        lk_sr_reply_bulk(call->out, word);
    } else if (call->argc > 1) {
        lk_sr_reply_bulk(call->out, word);
    } else {
        lk_sr_reply_status(call->out, "PONG");
    }
}

void lk_sr_echo(lk_sr_call *call)
{
    lk_sr_reply_bulk(call->out, call->argv[1]);
}

void lk_sr_quit(lk_sr_call *call)
{
    lk_sr_reply_status(call->out, "OK");
    lk_sr_close(call->client);
}
