# sh watched.sh JOB [SETTING...]: a training and, from beside it as from another terminal, two looks at it, the second some steps later.
PLIMSOLL_RUNTIME_DIR=$(mktemp -d)
export PLIMSOLL_RUNTIME_DIR
plimsoll train "$@" max_steps=1000000 >/dev/null 2>&1 &
run=$!
trap 'kill $run; wait $run; rm -r "$PLIMSOLL_RUNTIME_DIR"' EXIT

look_after() {  # step: looks until the run is past it
  for try in $(seq 200); do
    seen=$(plimsoll monitor --once)
    step=$(echo "$seen" | awk '$1 == "step" { print $2 }')
    [ "${step:-0}" -gt "$1" ] && echo "$seen" && return
    sleep 0.1
  done
  echo "after 200 looks it is not past step $1"
  exit 1
}
look_after 0
look_after "$step"
echo "seen twice, later and later"
