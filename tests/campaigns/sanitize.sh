#!/usr/bin/env bash
# Builds the tree with AddressSanitizer and UndefinedBehaviorSanitizer and runs tests. --full runs all.
# Otherwise the command runs a sixth of the verify scenarios (tests/app/every_scenario_test.py), and a third
# of the tests outside the suite 'heavy' run (sanitizer_sample.py). SHARDSIM_SAMPLE chooses them, and
# the part of the lists that tests take in parts (tests/sample.hpp): eighteen samples in a row cover all. With
# --full, too, a list runs in part; `./dev test --full` runs it whole, without sanitizers. --command only
# builds the command, and prints its path.
#
# Clang compiles this build. So it also serves `./dev plans`, which compares two compilers.
#
# usage: sanitize.sh [--full | --command]
#
# AddressSanitizer must be told of every switch of stacks. Debian's Boost.Context does not tell it,
# which gives false reports in correct programs. So Boost.Context and Boost.Fiber are built from the
# distribution's own source package in ucontext mode; docs/decisions/0002-sanitizer-build.md has the
# measurements. Without the source package the build falls back, and says so: then
# UndefinedBehaviorSanitizer covers everything and AddressSanitizer the test binaries without fibers.
# That counts as a failure, unless SHARDSIM_SANITIZE_WITHOUT_FIBERS=1 says that less is enough.
set -euo pipefail
exec </dev/null

# The tidy tests look at text, and gain nothing here. What a search finds in some seconds (suite `seconds`)
# is another thing in a build that is twenty times slower.
left_out=(slow online tidy seconds)
mode=$*
case $mode in
  '') left_out+=(heavy) ;;
  --full | --command) ;;
  *)
    printf 'sanitize: unknown arguments "%s"; there are --full and --command\n' "$mode" >&2
    exit 70
    ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$root/build-clang-asan
cache=${XDG_CACHE_HOME:-${HOME:-$root/build-clang-asan}/.cache}/shardsim
needed=(libs/context/src libs/fiber/src)

say() { printf 'sanitize: %s\n' "$*" >&2; }

# fetch_boost_source SOURCE VERSION FOLDER: downloads the source package to a private place and
# keeps the two folders that are needed. It turns the machine's own apt sources into source entries.
fetch_boost_source() {
  local source=$1 version=$2 folder=$3 work entry file
  work=$(mktemp -d)
  mkdir -p "$work/sources" "$work/lists/partial" "$work/cache/archives/partial"
  # Only the distribution's own entries are used, no other repositories.
  while read -r entry; do
    file=$work/sources/$(basename "$entry")
    case $entry in
      *.sources) sed -E 's/^Types:.*/Types: deb-src/' "$entry" >"$file" ;;
      *) sed -E -n 's/^deb[[:space:]]/deb-src /p' "$entry" | sed -e 's/[[:space:]]arch=[a-z0-9]*//' >"${file%.list}.list" ;;
    esac
  done < <(distribution_entries)
  local apt=(apt-get -q -o Dir::Etc::sourcelist=- -o "Dir::Etc::sourceparts=$work/sources"
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache"
    -o APT::Sandbox::User= -o Acquire::Retries=3 -o Acquire::Languages=none)
  local status=0
  (
    cd "$work"
    "${apt[@]}" update </dev/null >&2
    "${apt[@]}" source --download-only "$source=$version" </dev/null >&2
    mkdir tree
    tar -xf ./*.orig.tar.* -C tree --strip-components=1 --wildcards "${needed[@]/#/*/}"
  ) || status=$?
  if ((status == 0)) && [[ -f $work/tree/libs/fiber/src/scheduler.cpp ]]; then
    mkdir -p "$(dirname "$folder")"
    rm -rf "$folder"
    mv "$work/tree" "$folder"
  fi
  rm -rf "$work"
  [[ -d $folder ]]
}

distribution_entries() {
  local entries
  # shellcheck disable=SC2016
  entries=$(apt-get indextargets --format '$(ORIGIN) $(SOURCESENTRY)' 'Created-By: Packages' |
    sed -n -E 's/^(Debian|Ubuntu) (.*):[0-9]+$/\2/p' | sort -u)
  if [[ -z $entries ]]; then # No package lists yet: take what there is.
    entries=$(find /etc/apt/sources.list /etc/apt/sources.list.d -type f \
      \( -name '*.list' -o -name '*.sources' \) 2>/dev/null || true)
  fi
  printf '%s\n' "$entries"
}

# boost_source: prints the folder of the sources, fetching them if needed.
boost_source() {
  local package source version folder
  package=$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' 'libboost-fiber1*-dev' 2>/dev/null |
    sed -n 's/^ii //p' | tail -n 1)
  [[ -n $package ]] || return 1
  read -r source version < <(dpkg-query -W -f='${source:Package} ${source:Version}\n' "$package")
  folder=$cache/$source-$version
  if [[ ! -f $folder/libs/fiber/src/scheduler.cpp ]]; then
    say "fetching the sources of $source $version (74 MB, once)"
    fetch_boost_source "$source" "$version" "$folder" || return 1
  fi
  printf '%s\n' "$folder"
}

# sanitized_setup FOLDER SANITIZERS BOOST_SOURCE: warnings belong to the ordinary builds, where the
# optimizer is not confused by instrumentation.
sanitized_setup() {
  local folder=$1 sanitizers=$2 source=$3 flags="-fno-sanitize-recover=undefined -g1" launcher=''
  # Meson adds the cache by itself only where nobody names the compiler.
  command -v ccache >/dev/null && launcher='ccache '
  if [[ ! -f $folder/build.ninja ]]; then
    CC="${launcher}clang" CXX="${launcher}clang++" meson setup "$folder" "$root" "-Db_sanitize=$sanitizers" -Db_lundef=false "-Dcpp_args=$flags" \
      -Doptimization=1 -Ddebug=false -Dwerror=false -Dwarning_level=0 "-Dboost_source=$source" \
      >"$folder.log" 2>&1 </dev/null || {
      cat "$folder.log" >&2
      return 1
    }
    mv "$folder.log" "$folder/"
  fi
}

# sanitized_tests FOLDER NAME...: builds what these tests need, and runs them. Without names, the mode
# decides.
sanitized_tests() {
  local folder=$1 status=0
  shift
  local names=("$@") targets=() lines
  if [[ -z $mode && ${#names[@]} -eq 0 ]]; then
    ninja -C "$folder" build.ninja >&2 </dev/null || return # What is listed is then of this tree.
    mapfile -t lines < <(python3 -B "$root/tests/campaigns/sanitizer_sample.py" "$folder" \
      "$((${SHARDSIM_SAMPLE:-0} / 3 % 3))" "${left_out[@]/#/--without=}" --always=every_scenario)
    if ((${#lines[@]} != 2)); then
      say "the sample could not be drawn"
      return 1
    fi
    read -ra names <<<"${lines[0]}"
    read -ra targets <<<"${lines[1]}"
    say "the sample: ${names[*]}"
    # For Meson, ninja would start more jobs than there are cores.
    ninja -C "$folder" -j "$(nproc)" "${targets[@]}" >&2 </dev/null || return
  fi
  export ASAN_OPTIONS=detect_stack_use_after_return=0:strict_string_checks=1:check_initialization_order=1
  export UBSAN_OPTIONS=print_stacktrace=1
  meson test -C "$folder" --print-errorlogs "${left_out[@]/#/--no-suite=}" --timeout-multiplier 4 "${names[@]}" </dev/null || status=$?
  python3 "$root/tests/campaigns/count_results.py" "$folder/meson-logs/testlog.json" || status=$?
  return "$status"
}

# print_command FOLDER: builds the command and prints its path.
print_command() {
  ninja -C "$1" -j "$(nproc)" command >&2 </dev/null
  printf '%s\n' "$1/sim/command/shardsim"
}

main() {
  local source
  if source=$(boost_source); then
    sanitized_setup "$build" address,undefined "$source"
    if [[ $mode == --command ]]; then
      print_command "$build"
    else
      sanitized_tests "$build"
    fi
    return
  fi
  if [[ $mode == --command ]]; then
    sanitized_setup "$root/build-clang-ubsan" undefined ''
    print_command "$root/build-clang-ubsan"
    return
  fi
  say "FALLBACK: no Boost sources, so AddressSanitizer covers only the binaries without fibers"
  # shellcheck disable=SC1091
  . "$root/tests/campaigns/count.sh"
  if [[ ${SHARDSIM_SANITIZE_WITHOUT_FIBERS:-} != 1 ]]; then
    count_failure "AddressSanitizer saw no binary with fibers, because the sources of Boost could not be had;" \
      "SHARDSIM_SANITIZE_WITHOUT_FIBERS=1 accepts that"
  fi
  sanitized_setup "$root/build-clang-ubsan" undefined ''
  count_step sanitized_tests "$root/build-clang-ubsan"
  sanitized_setup "$root/build-clang-asan-packaged" address,undefined ''
  count_step sanitized_tests "$root/build-clang-asan-packaged" hardware scenarios reports
  count_close
}

main "$@"
