# Sourced: adds up steps that each end with a line "N passed, M failed", or this and ", K skipped".
#
#   count_step COMMAND...     runs one step, its output passing through
#   count_failure SENTENCE    one failure that no step has counted
#   count_close               prints counts and time of each step, the time of all, and the sum as
#                             the last line; its status says whether all passed
#
# A step that ends without that line, or fails with no failure counted, counts as one failure: a
# crash must never look like a pass. REQUIRES: set -o pipefail.

count_passed=0
count_failed=0
count_skipped=0
count_table=()

count_step() {
  local log line status=0 counts='^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$'
  local wall_before cpu_before failed_before=$count_failed
  count_time
  wall_before=$count_wall cpu_before=$count_cpu
  log=$(mktemp)
  "$@" | tee "$log" || status=${PIPESTATUS[0]}
  line=$(grep -E "$counts" "$log" | tail -n 1 || true)
  rm -f "$log"
  local failed=0
  if [[ $line =~ $counts ]]; then
    count_passed=$((count_passed + BASH_REMATCH[1]))
    failed=${BASH_REMATCH[2]}
    count_skipped=$((count_skipped + ${BASH_REMATCH[4]:-0}))
  fi
  count_failed=$((count_failed + failed))
  if [[ -z $line ]] || ((status != 0 && failed == 0)); then
    count_failure "step \"$*\" ended with status $status and ${line:-no counts}"
  fi
  count_time
  count_table+=($((count_wall - wall_before)) $((count_cpu - cpu_before)) $((count_failed - failed_before)) "$*")
}

count_failure() {
  printf '%s\n' "$*"
  count_failed=$((count_failed + 1))
}

# Sets count_wall and count_cpu: seconds since the shell began, and processor seconds of it and its
# children. `times` does not see them from a subshell, so it writes to a file.
count_time() {
  local log
  log=$(mktemp)
  times >"$log"
  count_wall=$SECONDS
  count_cpu=$(awk '
    { for (i = 1; i <= NF; i++) { gsub(",", ".", $i); split($i, part, /[ms]/); cpu += 60 * part[1] + part[2] } }
    END { printf "%.0f", cpu }' "$log")
  rm -f "$log"
}

count_close() {
  if ((${#count_table[@]} > 0)); then
    printf '%8s %10s %7s  %s\n' 'wall s' 'processor' 'failed' 'step'
    printf '%8d %10d %7d  %s\n' "${count_table[@]}"
  fi
  count_time
  printf 'took %d s, and %d s of processors\n' "$count_wall" "$count_cpu"
  printf '%d passed, %d failed' "$count_passed" "$count_failed"
  ((count_skipped == 0)) || printf ', %d skipped' "$count_skipped"
  printf '\n'
  ((count_failed == 0))
}
