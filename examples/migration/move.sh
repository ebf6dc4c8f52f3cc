#!/bin/sh
# Start the training, ask it to stop, and start it again somewhere else.
# Everything goes into a temporary folder, which stands for the volume that pods share.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
volume=$(mktemp -d)
export MIGRATION_CKPT_PATH="$volume/migration.pth" MIGRATION_SIGNAL_PATH="$volume/signal"

training=
end() {
    if [ -n "$training" ]; then kill "$training" 2>/dev/null || true; fi
    rm -r "$volume"
}
trap end EXIT

resile poststart
resile run --nproc-per-node 2 "$here/train.py" >"$volume/first.log" 2>&1 &
training=$!
until grep -q "step = 50" "$volume/first.log"; do
    kill -0 "$training"
    sleep 0.1
done
resile prestop
wait "$training"
training=
cat "$volume/first.log" "$volume/preStop.log"
echo "--- moved; the volume has: $(ls "$volume" | tr '\n' ' ')"

resile run --nproc-per-node 2 "$here/train.py"
