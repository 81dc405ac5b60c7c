# Sourced: adds up steps that each end with a line "N passed, M failed".
#
#   count_step COMMAND...   runs one step, its output passing through
#   count_close             prints the sum as the last line; its status says whether all passed
#
# A step that ends without that line, or fails with no failure counted, counts as one failure: a
# crash must never look like a pass. REQUIRES: set -o pipefail.

count_passed=0
count_failed=0

count_step() {
  local log line status=0
  log=$(mktemp)
  "$@" | tee "$log" || status=${PIPESTATUS[0]}
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1 || true)
  rm -f "$log"
  local passed=0 failed=0
  if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
    passed=${BASH_REMATCH[1]}
    failed=${BASH_REMATCH[2]}
  fi
  if [[ -z $line ]] || ((status != 0 && failed == 0)); then
    printf 'step "%s" ended with status %s and %s\n' "$*" "$status" "${line:-no counts}"
    failed=$((failed + 1))
  fi
  count_passed=$((count_passed + passed))
  count_failed=$((count_failed + failed))
}

count_close() {
  printf '%d passed, %d failed\n' "$count_passed" "$count_failed"
  ((count_failed == 0))
}
