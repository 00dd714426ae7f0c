/* choice.c: chooses the service of a program that names none, and remembers what named it.
 *
 * The order is the same for programs and for the command: LOCKER_URI; the file LOCKER_CONFIG; the user's file,
 * $XDG_CONFIG_HOME/locker/locker.conf or ~/.config/locker/locker.conf; /etc/locker.conf; the embedded default, files in
 * /tmp/locker-UID. Two jobs on one host that name nothing therefore meet.
 *
 * A program with raised privileges (set-user-ID, set-group-ID, file capabilities) is started by somebody with fewer rights,
 * who chooses its environment. secure_getenv() returns NULL there, so only /etc/locker.conf and the embedded default are left.
 * The default is the directory of the effective user, whose rights the program has. Where that user is the one who started
 * the program, its starter could replace the directory, so there is no default. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "choice.h"

static const char system_file[] = "/etc/locker.conf";

/* Return a variable of the environment; NULL if it is unset, empty, or not to be trusted. */
static const char *variable(const char *name)
{
    const char *const value = secure_getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static const char *usual_profile(void)
{
    const char *const profile = variable("LOCKER_PROFILE");
    return profile != NULL ? profile : "default";
}

/* True if the directory and the rest make an absolute path at which there is a file, readable or not, or a link: one that leads
 * nowhere is an error, and not a reason to use another service. */
static bool find(lk_choice *c, const char *directory, const char *rest)
{
    struct stat st;
    if (directory == NULL || directory[0] != '/')
        return false;
    const int length = snprintf(c->text, sizeof c->text, "%s%s", directory, rest);
    return length > 0 && length < (int)sizeof c->text && lstat(c->text, &st) == 0;
}

/* Set `file` if there is one. */
static void look_for_file(lk_choice *c)
{
    const char *const config = variable("LOCKER_CONFIG"), *const xdg = variable("XDG_CONFIG_HOME");
    c->file = config;
    c->origin = " (LOCKER_CONFIG)";
    if (config != NULL)
        return;
    c->origin = "";
    c->is_users = xdg != NULL ? find(c, xdg, "/locker/locker.conf")
                              : find(c, variable("HOME"), "/.config/locker/locker.conf");
    if (c->is_users || find(c, system_file, ""))
        c->file = c->text;
}

/* Turn `origin`, which is what stands behind the file's name, into the whole. */
static void name_file(lk_choice *c, const char *profile)
{
    c->profile = profile != NULL ? profile : usual_profile();
    (void)snprintf(c->named, sizeof c->named, "from %s, profile [%s]%s", c->file, c->profile, c->origin);
    c->origin = c->named;
}

locker_status lk_choose_file(lk_choice *c, const char *file, const char *profile, locker_error *err)
{
    *c = (lk_choice){.file = file, .origin = ""};
    if (file == NULL)
        look_for_file(c);
    if (c->file == NULL)
        return lk_misconfigured(
            err,
            "profile '%.60s' needs a configuration file, and there is none; set LOCKER_CONFIG to its "
            "path, or create %s",
            profile != NULL ? profile : usual_profile(), system_file);
    name_file(c, profile);
    return LOCKER_OK;
}

static locker_status choose_embedded(lk_choice *c, locker_error *err)
{
    const uid_t user = geteuid();
    if (getauxval(AT_SECURE) != 0 && user != 0 && user == getauxval(AT_UID))
        return lk_misconfigured(err,
                                "cannot use the default directory /tmp/locker-%lu: it belongs to the "
                                "user that started this program, which runs with raised privileges; "
                                "name a service in %s",
                                (unsigned long)user, system_file);
    (void)snprintf(c->text, sizeof c->text, "file:///tmp/locker-%lu", (unsigned long)user);
    c->uri = c->text;
    c->origin = "the embedded default";
    return LOCKER_OK;
}

locker_status lk_choose(lk_choice *c, locker_error *err)
{
    *c = (lk_choice){.uri = variable("LOCKER_URI"), .origin = "from LOCKER_URI"};
    if (c->uri != NULL)
        return LOCKER_OK;
    if (variable("LOCKER_PROFILE") != NULL)
        return lk_choose_file(c, NULL, NULL, err);
    look_for_file(c);
    if (c->file == NULL)
        return choose_embedded(c, err);
    name_file(c, NULL);
    return LOCKER_OK;
}
