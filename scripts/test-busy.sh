#!/usr/bin/env bash
# Runs the tests of a build folder as on a machine that has other work, and on one core.
#
#     scripts/test-busy.sh [BUILD]     BUILD: build (default)
#     RUNS=3 LOAD=8 CTEST_ARGS='-L run' scripts/test-busy.sh
#
# RUNS runs beside LOAD processes that compute without end, then one run on a single core without them (ONE_CORE=0: not).
# Exits with 1 if a test failed in any run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=${1:-build} runs=${RUNS:-3} load=${LOAD:-8} status=0
busy=()
stop_load() {
  ((${#busy[@]} == 0)) || kill "${busy[@]}" 2>/dev/null
  busy=()
}
trap stop_load EXIT

# tested NAME COMMAND...: ctest's closing lines and the seconds, under the name of the run.
tested() {
  local name=$1 begin=$SECONDS
  shift
  # shellcheck disable=SC2086  # several arguments
  "$@" ctest --test-dir "$build" --output-on-failure -j"${TEST_JOBS:-2}" ${CTEST_ARGS:-} || status=1
  echo "==> test: $name: $((SECONDS - begin)) s, load average $(cut -d' ' -f1 /proc/loadavg)"
}

for ((i = 0; i < load; ++i)); do
  while :; do :; done &
  busy+=($!)
done
for ((run = 1; run <= runs; ++run)); do tested "run $run beside $load busy processes"; done
stop_load
if ((${ONE_CORE:-1})); then TEST_JOBS=1 tested "on one core" taskset -c 0; fi
exit $status
