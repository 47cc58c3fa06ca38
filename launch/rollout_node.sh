#!/usr/bin/env bash
# The rollout server's node; job.sh starts it, inside the container where there is one.
set -euo pipefail

(umask 077 && mkdir -p "$NODE_CACHE")
# Compiled code is taken from there.
[[ -O $NODE_CACHE ]] || { echo "error: NODE_CACHE=$NODE_CACHE is another user's: name another folder" >&2 && exit 2; }
while true; do
  status=0
  "$TRAIN_BIN/medgrpo" serve --model "$MODEL" --host 0.0.0.0 --port "$ROLLOUT_PORT" --sync "$SYNC" \
    --python "$SERVE_PYTHON" --api-key-file "$ROLLOUT_KEY_FILE" --engine-args "$ENGINE_ARGS" || status=$?
  # One that never came up would not come up the next time either.
  [[ -f $JOB_LOGS/server-was-ready ]] || exit "$(( status == 0 ? 1 : status ))"
  echo "the rollout server ended with status $status and is started again" >&2
  sleep 5
done
