# Completion of locker(1) for bash. Keys are not completed: a service can't list them.

# Profiles, files and commands may have any name. bash puts what is completed into the line that it executes, so nothing here is
# expanded, and each name is quoted.

# The configuration file: of -f, else LOCKER_CONFIG, else the first of the usual ones.
_locker_config() {
    local file=${LOCKER_CONFIG-} i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -f | --config) file=${COMP_WORDS[i + 1]} ;;
        esac
    done
    if [[ -z $file ]]; then
        file=${XDG_CONFIG_HOME:-$HOME/.config}/locker/locker.conf
        [[ -f $file ]] || file=/etc/locker.conf
    fi
    printf '%s\n' "${file/#\~\//$HOME/}"
}

# Complete the sections of that file. A name that has more than printable ASCII is left out.
_locker_profiles() {
    local file name quoted LC_ALL=C
    file=$(_locker_config)
    [[ -f $file && -r $file ]] || return
    while IFS= read -r name; do
        [[ $name == *[!\ -~]* ]] && continue
        printf -v quoted '%q' "$name"
        [[ $name == "$1"* || $quoted == "$1"* ]] && COMPREPLY+=("$quoted")
    done < <(sed -n 's/^[[:space:]]*\[\([^]]*\)\].*/\1/p' -- "$file")
}

_locker_files() {
    compopt -o filenames 2>/dev/null # so that readline quotes them
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# The index of the first word behind KEY, where COMMAND begins; 0 when it is not reached yet.
_locker_command_at() {
    local i key=0
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        -u | --uri | -f | --config | --profile | -w | --wait | -E | --conflict-exit-code | -t | --ttl | \
            -k | --kill-after | --on-lost | --lost-exit-code | --owner | -c | --command | --status-fd | -p | --permits | --also)
            ((key)) || ((i++))
            ;;
        --) ;;
        -*) ;;
        *)
            if ((key)); then
                echo "$i"
                return
            fi
            key=$i
            ;;
        esac
    done
    if ((key)); then echo "$COMP_CWORD"; else echo 0; fi
}

_locker() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} at
    local service='-u --uri -f --config --profile -q --quiet -v --verbose -h --help -V --version'
    local run='-n --nonblock -w --wait -E --conflict-exit-code -t --ttl -k --kill-after --on-lost
        --lost-exit-code --owner -s --shared -p --permits --also -c --command -F --no-fork --foreground --wait-descendants --status-fd'

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W 'run show break ping drivers check-history compare help --help --version' -- "$current")
        return
    fi
    if [[ ${COMP_WORDS[1]} == run ]]; then
        at=$(_locker_command_at)
        if ((at == COMP_CWORD)) && [[ $current != -* ]]; then
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -c -- "$current")
            return
        elif ((at)); then
            if declare -F _command_offset >/dev/null; then
                _command_offset "$at"
            else
                _locker_files "$current"
            fi
            return
        fi
    fi
    if [[ ${COMP_WORDS[1]} == run && $previous == -s ]]; then
        previous=
    fi
    case $previous in
    -s | --scenario)
        mapfile -t COMPREPLY < <(compgen -W 'counter uncontended hand-off throughput fairness crash stall slow-work unlock-after-loss readers permits restart restart-empty recovery failover failover-wait failover-recovery partition' -- "$current")
        ;;
    --html | -f | --config) _locker_files "$current" ;;
    --profile) _locker_profiles "$current" ;;
    -u | --uri | -b | --backend) mapfile -t COMPREPLY < <(compgen -W 'file:/// memory: redis:// zookeeper:// etcd://' -- "$current") ;;
    --on-lost) mapfile -t COMPREPLY < <(compgen -W 'term ignore int hup quit usr1 usr2 kill' -- "$current") ;;
    --promise | --allow)
        mapfile -t COMPREPLY < <(compgen -W 'overlap truth tokens release writes orphans waiters fifo notice' -- "$current")
        ;;
    -w | --wait | -t | --ttl | -k | --kill-after)
        mapfile -t COMPREPLY < <(compgen -W '1s 10s 30s 1m 10m' -- "$current")
        ;;
    -E | --conflict-exit-code | --lost-exit-code | --owner | -c | --command | --status-fd | -p | --permits | --also | --count | --runs) ;;
    *)
        case ${COMP_WORDS[1]} in
        run) mapfile -t COMPREPLY < <(compgen -W "$service $run" -- "$current") ;;
        show) mapfile -t COMPREPLY < <(compgen -W "$service --json" -- "$current") ;;
        break) mapfile -t COMPREPLY < <(compgen -W "$service --json --token --owner --force" -- "$current") ;;
        ping) mapfile -t COMPREPLY < <(compgen -W "$service --json -c --count" -- "$current") ;;
        drivers) mapfile -t COMPREPLY < <(compgen -W '--json --help --version file memory redis zookeeper etcd' -- "$current") ;;
        check-history)
            if [[ $current == -* ]]; then
                mapfile -t COMPREPLY < <(compgen -W '--promise --allow --allow-empty --json -q --quiet -v --verbose -h --help -V --version' -- "$current")
            else
                _locker_files "$current"
            fi
            ;;
        compare)
            mapfile -t COMPREPLY < <(compgen -W '-b --backend --spawn --spawn= -s --scenario --list -n --runs --quick
                --html --json -q --quiet -h --help -V --version' -- "$current")
            ;;
        help) mapfile -t COMPREPLY < <(compgen -W 'run show break ping drivers check-history compare' -- "$current") ;;
        esac
        ;;
    esac
}

complete -F _locker locker
