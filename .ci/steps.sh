# Runs steps one after another, and one beside them. Sourced by .ci/run, which sets the folder `scratch`.

beside= # the process of the function that runs beside the steps

heading() { printf '\n== %s (%ds)\n' "$1" "$SECONDS"; }

# step NAME COMMAND...: prints the name, and runs a command or a function.
step() {
    heading "$1"
    "${@:2}"
}

# begin FUNCTION: runs a function beside the following steps, until `join`.
begin() {
    "$1" >"$scratch/beside" 2>&1 &
    beside=$!
}

# join: waits for the function, prints what it printed, and fails if it failed.
join() {
    local process=$beside status=0
    beside=
    wait "$process" || status=$?
    cat "$scratch/beside"
    return "$status"
}

# clean: at the exit, also after a failure beside which a function runs.
clean() {
    if [ -n "$beside" ]; then join || true; fi
    rm -rf "$scratch"
}
