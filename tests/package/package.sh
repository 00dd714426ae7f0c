#!/bin/sh
# One test of what is installed, named by the argument. The environment says where: BUILD (the build folder),
# PREFIX (where to install), LIBDIR (below it), WORK (scratch), CC, CMAKE, SANITIZE, MODULES (the drivers that are), REDIS,
# ZOOKEEPER and ETCD (whether the build has them), SOVERSION (the number of the ABI). See CMakeLists.txt.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
consumer=$here/consumer
flags="-std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
cxxflags="-std=c++11 -Wall -Wextra -Wpedantic -Werror"
if [ -n "$SANITIZE" ]; then
    flags="$flags -fsanitize=$SANITIZE"
    cxxflags="$cxxflags -fsanitize=$SANITIZE"
fi
# The C++ compiler beside the C compiler: gcc's g++, clang's clang++.
case $(basename "$CC") in
*clang*) CXX=clang++ ;;
*) CXX=g++ ;;
esac

fail() {
    echo "package test: $*" >&2
    exit 1
}

# What these tests ask of a build does not hang on the optimiser.
quick="-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0"

# make need not be installed.
CMAKE_GENERATOR=Ninja
export CMAKE_GENERATOR

rm -rf "$WORK"
mkdir -p "$WORK"

needs_client() { # whether a library or program needs the client library of a service; says which
    readelf -d "$1" | grep -E 'NEEDED.*(hiredis|ssl|crypto|zookeeper|nghttp2|protobuf)'
}

list_drivers() { # FOLDER MODULE...: what the liblocker.so there tells of each driver, of which these are modules
    folder=$1
    shift
    LD_LIBRARY_PATH=$folder "$WORK/list" 2>"$WORK/files" | sort || fail "$(cat "$WORK/files")"
    while read -r name file; do
        case " $* " in
        *" $name "*) [ "$file" = "$(realpath "$folder")/locker/$name.so" ] || fail "$name is $file, no module" ;;
        *) [ "$file" = - ] || fail "$name is the module $file" ;;
        esac
    done <"$WORK/files"
}

use() { # run a program that takes a lock in a directory
    LD_LIBRARY_PATH=$PREFIX/$LIBDIR "$1" "file://$WORK/locks" || fail "$1 failed"
}

case $1 in
install)
    rm -rf "$PREFIX"
    "$CMAKE" --install "$BUILD" --prefix "$PREFIX" >"$WORK/log" 2>&1 || fail "$(cat "$WORK/log")"
    for file in include/locker/locker.h include/locker/driver.h include/locker/instrument.h include/locker/version.h \
        include/locker/mock.h include/locker/fault.h "$LIBDIR/liblocker-mock.so" "$LIBDIR/pkgconfig/locker-mock.pc" \
        include/locker/conformance.h "$LIBDIR/liblocker-conformance.so" "$LIBDIR/pkgconfig/locker-conformance.pc" \
        "$LIBDIR/liblocker.so" "$LIBDIR/liblocker.a" "$LIBDIR/pkgconfig/locker.pc" \
        "$LIBDIR/cmake/locker/lockerConfig.cmake" share/man/man3/liblocker.3 share/man/man3/locker_lock.3 \
        share/man/man3/locker_mock_open.3 share/man/man3/locker_conformance_run.3; do
        [ -e "$PREFIX/$file" ] || fail "$file was not installed"
    done
    for module in $MODULES; do
        "$CMAKE" --install "$BUILD" --prefix "$WORK/part" --component "locker-$module" >"$WORK/log" 2>&1 ||
            fail "$(cat "$WORK/log")"
        for file in "$LIBDIR/locker/$module.so" "$LIBDIR/locker/$module.driver"; do
            [ -e "$PREFIX/$file" ] || fail "$file was not installed"
            [ -e "$WORK/part/$file" ] || fail "$file does not belong to the component locker-$module"
        done
    done
    if [ -n "$MODULES" ] && needs_client "$PREFIX/$LIBDIR/liblocker.so"; then
        fail "liblocker.so needs the client library above, which only a module may"
    fi
    ;;
moved)
    # Installed below DESTDIR, as packages are made, and then moved: all is found from where it lies.
    DESTDIR=$WORK/staged "$CMAKE" --install "$BUILD" --prefix /opt/locker >"$WORK/log" 2>&1 || fail "$(cat "$WORK/log")"
    mv "$WORK/staged/opt/locker" "$WORK/elsewhere"
    locker=$WORK/elsewhere/$BIN/locker
    "$locker" run -u "file://$WORK/locks" key true || fail "$locker failed"
    "$locker" drivers >"$WORK/drivers" || fail "$locker drivers failed"
    if grep "CAN'T BE USED" "$WORK/drivers"; then
        fail "the driver above can't be used"
    fi
    for module in $MODULES; do
        grep -q "module  *$(realpath "$WORK")/elsewhere/$LIBDIR/locker/$module.so" "$WORK/drivers" ||
            fail "the $module driver is not found beside the library: $(cat "$WORK/drivers")"
    done
    if readelf -d "$locker" "$WORK/elsewhere/$LIBDIR"/*.so "$WORK/elsewhere/$LIBDIR"/locker/*.so |
        grep -E 'R(UN)?PATH' | grep -F "$BUILD"; then
        fail "what was installed carries the path of the build folder"
    fi
    ;;
headers)
    command -v "$CXX" >/dev/null || fail "no $CXX: install g++ or clang"
    for header in "$PREFIX"/include/locker/*.h; do
        name=locker/$(basename "$header")
        printf '#include <%s>\n#include <%s>\nextern int use;\n' "$name" "$name" >"$WORK/one.c"
        cp "$WORK/one.c" "$WORK/one.cc"
        # shellcheck disable=SC2086 # flags are words
        "$CC" $flags -I"$PREFIX/include" -fsyntax-only "$WORK/one.c" || fail "$name does not compile alone as C"
        # shellcheck disable=SC2086
        "$CXX" $cxxflags -I"$PREFIX/include" -fsyntax-only "$WORK/one.cc" ||
            fail "$name does not compile alone as C++"
    done
    ;;
sizes)
    # Programs of releases that were, and will be: the same header, with members less and with members more.
    build() { # NAME HEADER FLAG...
        mkdir -p "$WORK/$1/locker"
        cp "$PREFIX"/include/locker/*.h "$WORK/$1/locker/"
        sed "$2" "$PREFIX/include/locker/locker.h" >"$WORK/$1/locker/locker.h"
        ! cmp -s "$PREFIX/include/locker/locker.h" "$WORK/$1/locker/locker.h" || fail "nothing is other in $1"
        name=$1
        shift 2
        # shellcheck disable=SC2086 # flags are words; what INIT has too much is left out
        "$CC" $flags -w "$@" -I"$WORK/$name" "$consumer/sizes.c" -L"$PREFIX/$LIBDIR" -llocker -o "$WORK/$name/program"
        use "$WORK/$name/program"
    }
    for struct in options lock_options info break_options statistics; do
        grep -q "^} locker_$struct;" "$PREFIX/include/locker/locker.h" || fail "no end of locker_$struct"
    done
    build earlier '/^    void \*log_user; /d; /^    const char \*label;/d; /^    const char \*owner; .*any \*\/$/d'
    build later 's/^} locker_\(options\|lock_options\|info\|break_options\|statistics\);/    int64_t later;\n&/' -DLATER
    ;;
symbols)
    exported() { # LIBRARY: one name a line, but the names of versions
        nm -D --defined-only "$PREFIX/$LIBDIR/$1" | awk '$2 != "A" { print $3 }' | sed 's/@.*//'
    }
    exported liblocker.so >"$WORK/symbols"
    grep -q '^locker_open$' "$WORK/symbols" || fail "locker_open is not exported"
    if grep -v '^locker_' "$WORK/symbols"; then
        fail "the symbols above are exported; only locker_* may be"
    fi
    if grep '^locker_mock_' "$WORK/symbols"; then
        fail "the library carries the mock's symbols above"
    fi
    exported liblocker-mock.so >"$WORK/symbols"
    grep -q '^locker_mock_open$' "$WORK/symbols" || fail "locker_mock_open is not exported"
    if grep -v '^locker_mock_' "$WORK/symbols"; then
        fail "the mock exports the symbols above; only locker_mock_* may be"
    fi
    for module in $MODULES; do
        [ "$(exported "locker/$module.so")" = locker_module ] ||
            fail "$module.so exports something else than locker_module"
    done
    [ "$(exported liblocker-conformance.so)" = locker_conformance_run ] ||
        fail "liblocker-conformance.so exports something else than locker_conformance_run"
    # One number of the ABI, in what a program asks the loader for and in the versions of the symbols.
    for library in locker locker-mock locker-conformance; do
        soname=$(readelf -d "$PREFIX/$LIBDIR/lib$library.so" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
        [ "$soname" = "lib$library.so.$SOVERSION" ] || fail "lib$library.so calls itself $soname"
        [ -e "$PREFIX/$LIBDIR/$soname" ] || fail "$soname is not installed"
        version=$(echo "${library}_$SOVERSION" | tr a-z- A-Z_)
        others=$(nm -D --defined-only --with-symbol-versions "$PREFIX/$LIBDIR/lib$library.so" |
            awk '$2 != "A" { print $3 }' | grep -v "@@$version\$") || continue
        fail "symbols of lib$library.so are not of the version $version: $others"
    done
    ;;
pkg_config)
    PKG_CONFIG_PATH=$PREFIX/$LIBDIR/pkgconfig
    export PKG_CONFIG_PATH
    # It finds the prefix from where it lies, not from what was configured.
    config() {
        pkg-config "$@"
    }
    for module in locker locker-mock locker-conformance; do
        for word in $(config --cflags "$module"); do
            case $word in
            -I*) [ "$(realpath "${word#-I}")" = "$(realpath "$PREFIX/include")" ] ||
                fail "--cflags of $module has $word, which isn't ours" ;;
            *) fail "--cflags of $module has $word, which isn't ours" ;;
            esac
        done
    done
    # shellcheck disable=SC2046,SC2086 # pkg-config prints words
    {
        "$CC" $flags "$consumer/use.c" $(config --cflags --libs locker) -o "$WORK/c_shared"
        "$CC" $flags "$consumer/use_mock.c" $(config --cflags --libs locker-mock) -o "$WORK/mock"
        "$CXX" $cxxflags "$consumer/use.cc" $(config --cflags --libs locker) -o "$WORK/cxx_shared"
        # Debian has no static library of each dependency, so only ours is linked statically.
        "$CC" $flags "$consumer/use.c" $(config --cflags locker) -Wl,-Bstatic -L"$PREFIX/$LIBDIR" -llocker \
            -Wl,-Bdynamic $(config --static --libs locker | sed 's/-llocker//') -o "$WORK/c_static"
    }
    # shellcheck disable=SC2046,SC2086
    "$CC" $flags "$here/../conformance/toy.c" $(config --cflags --libs locker-conformance) -o "$WORK/kit"
    LD_LIBRARY_PATH=$PREFIX/$LIBDIR "$WORK/kit" basics lock_and_unlock >"$WORK/log" 2>&1 || fail "$(cat "$WORK/log")"
    for program in c_shared cxx_shared c_static; do
        use "$WORK/$program"
    done
    use "$WORK/mock"
    # The linker may need what the libraries of a program need; of the shared one that is no service's client.
    [ -z "$MODULES" ] || ! needs_client "$WORK/c_shared" || fail "a program that uses files needs the library above"
    [ "$(config --variable=moduledir locker | xargs realpath -m)" = "$(realpath -m "$PREFIX/$LIBDIR/locker")" ] ||
        fail "moduledir of locker.pc is $(config --variable=moduledir locker)"
    if ldd "$WORK/c_static" | grep -q liblocker; then
        fail "the static program needs liblocker.so"
    fi
    ;;
cmake)
    log=$WORK/log
    {
        "$CMAKE" -S "$consumer" -B "$WORK/build" -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_C_COMPILER="$CC" \
            -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_C_FLAGS="${SANITIZE:+-fsanitize=$SANITIZE}" \
            -DCMAKE_CXX_FLAGS="${SANITIZE:+-fsanitize=$SANITIZE}" && "$CMAKE" --build "$WORK/build"
    } >"$log" 2>&1 || fail "$(cat "$log")"
    for program in c_shared c_static cxx_shared cxx_static mock; do
        use "$WORK/build/$program"
    done
    ;;
testing)
    # The example of a program with its tests is whole by itself.
    {
        "$CMAKE" -S "$here/../../examples/testing" -B "$WORK/build" -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_C_COMPILER="$CC" \
            -DCMAKE_C_FLAGS="${SANITIZE:+-fsanitize=$SANITIZE}" && "$CMAKE" --build "$WORK/build" &&
            ctest --test-dir "$WORK/build" --no-tests=error
    } >"$WORK/log" 2>&1 || fail "$(cat "$WORK/log")"
    LOCKER_URI=file://$WORK/locks "$WORK/build/example_orders" a b >"$WORK/log" 2>&1 || fail "$(cat "$WORK/log")"
    ;;
lab)
    # The command runs what is installed beside it, wherever that lies, and says so when it isn't there.
    DESTDIR=$WORK/staged "$CMAKE" --install "$BUILD" --prefix /usr >"$WORK/log" 2>&1 || fail "$(cat "$WORK/log")"
    for program in compare check-history; do
        [ -x "$WORK/staged/usr/$LIBEXEC/locker/locker-$program" ] || fail "locker-$program was not installed"
        [ ! -e "$WORK/staged/usr/$BIN/locker-$program" ] || fail "locker-$program is among the commands"
    done
    mv "$WORK/staged/usr" "$WORK/moved"
    locker=$WORK/moved/$BIN/locker
    cd "$WORK" # it is not found from here
    "$locker" compare --backend "file://$WORK/locks" --scenario hand-off --quick --quiet --json "$WORK/found" >"$WORK/log" ||
        fail "compare ended with $?"
    grep -q hand-off "$WORK/log" || fail "compare told nothing"
    PATH=$WORK/moved/$BIN:$PATH locker check-history "$WORK/found" >"$WORK/log" || fail "check-history ended with $?"
    grep -q 'no promise is broken' "$WORK/log" || fail "check-history told nothing"
    code=0
    "$locker" check-history "$WORK/none" 2>"$WORK/log" || code=$?
    [ "$code" -eq 66 ] || fail "check-history of a file that isn't there ended with $code"
    chmod -x "$WORK/moved/$LIBEXEC/locker/locker-compare"
    code=0
    "$locker" compare --list 2>"$WORK/log" || code=$?
    [ "$code" -eq 71 ] || fail "compare that can't be started ended with $code"
    rm -r "$WORK/moved/$LIBEXEC/locker"
    for program in compare check-history; do
        code=0
        "$locker" "$program" --help 2>"$WORK/log" || code=$?
        [ "$code" -eq 69 ] || fail "$program ended with $code without its program"
        grep -q "install locker-$program" "$WORK/log" || fail "$program says: $(cat "$WORK/log")"
        "$locker" help "$program" | grep -q "locker $program" || fail "there is no help on $program"
    done
    if [ -z "$SANITIZE" ] && ldd "$locker" | grep -E 'libm[.]'; then
        fail "the command needs what is for the laboratory alone"
    fi
    ;;
builtin)
    # Each driver built in, in the shared library too: the same list of them, and no module.
    log=$WORK/log
    # shellcheck disable=SC2086 # flags are words
    {
        "$CMAKE" -S "$here/../.." -B "$WORK/build" $quick -DCMAKE_C_COMPILER="$CC" -DLOCKER_MODULES=OFF -DLOCKER_TOOLS=OFF \
            -DLOCKER_TESTS=OFF -DLOCKER_BENCH=OFF -DLOCKER_EXAMPLES=OFF -DLOCKER_REDIS="$REDIS" \
            -DLOCKER_ZOOKEEPER="$ZOOKEEPER" -DLOCKER_ETCD="$ETCD" -DLOCKER_FAULT=ON -DLOCKER_SYMLINK_COMPILE_COMMANDS=OFF \
            -DLOCKER_SANITIZE="$SANITIZE" && "$CMAKE" --build "$WORK/build" --target locker &&
            "$CC" $flags -I"$here/../../include" -I"$WORK/build/include" "$consumer/list.c" -L"$WORK/build" -llocker \
                -o "$WORK/list"
    } >"$log" 2>&1 || fail "$(cat "$log")"
    [ -z "$MODULES" ] || needs_client "$WORK/build/liblocker.so" || fail "liblocker.so has no driver for a network"
    list_drivers "$WORK/build" >"$WORK/builtin"
    # shellcheck disable=SC2086 # words
    list_drivers "$BUILD" $MODULES >"$WORK/modules"
    cmp "$WORK/builtin" "$WORK/modules" || fail "drivers as modules are not described as those built in are"
    ;;
small)
    # Without tools, tests and services: what is for those is not installed, and ctest has an answer. From what an
    # archive has: no repository, and nothing that was built before.
    log=$WORK/log
    mkdir "$WORK/source"
    (cd "$here/../.." && tar -c --exclude=.git --exclude='./build*' .) | tar -x -C "$WORK/source"
    # shellcheck disable=SC2086 # words
    {
        "$CMAKE" -S "$WORK/source" -B "$WORK/build" $quick -DCMAKE_C_COMPILER="$CC" -DLOCKER_TOOLS=OFF -DLOCKER_TESTS=OFF \
            -DLOCKER_BENCH=OFF -DLOCKER_EXAMPLES=OFF -DLOCKER_REDIS=OFF -DLOCKER_ZOOKEEPER=OFF -DLOCKER_ETCD=OFF \
            -DLOCKER_SYMLINK_COMPILE_COMMANDS=OFF &&
            "$CMAKE" --build "$WORK/build" && "$CMAKE" --install "$WORK/build" --prefix "$WORK/prefix"
    } >"$log" 2>&1 || fail "$(cat "$log")"
    [ -e "$WORK/prefix/$LIBDIR/liblocker.so" ] || fail "liblocker.so was not installed"
    [ ! -e "$WORK/prefix/share/man/man1" ] || fail "the command's manual pages were installed without it"
    [ -e "$WORK/prefix/share/man/man7/locker-uri.7" ] || fail "locker-uri(7) was not installed"
    [ -e "$WORK/prefix/share/man/man3/locker_lock.3" ] || fail "locker_lock(3) was not installed"
    for page in locker_fault_on locker_conformance_run; do
        [ ! -e "$WORK/prefix/share/man/man3/$page.3" ] || fail "$page(3) describes what this build's libraries do not have"
    done
    printf '#include <locker/fault.h>\nint (*use)(void) = (int (*)(void))locker_fault_on;\n' >"$WORK/use.c"
    if "$CC" -I"$WORK/prefix/include" -fsyntax-only "$WORK/use.c" 2>"$log"; then
        fail "fault.h declares what this build's library has not"
    fi
    (cd "$WORK/build" && ctest -N >"$log" 2>&1) || fail "$(cat "$log")"
    [ -e "$WORK/build/CTestTestfile.cmake" ] || fail "ctest knows nothing of this build"
    # A path of the build folder in it would make its build-id one of the place.
    for library in liblocker.so liblocker-mock.so; do
        if readelf -d "$WORK/build/$library" | grep -E 'R(UN)?PATH' | grep -F "$WORK"; then
            fail "$library carries the path of the build folder"
        fi
    done
    ;;
*) fail "no test is called $1" ;;
esac
