#!/usr/bin/env bash
# One node's training ranks; job.sh starts it on every training node, inside the container where there is one.
set -euo pipefail

(umask 077 && mkdir -p "$NODE_CACHE")
# Compiled code is taken from there.
[[ -O $NODE_CACHE ]] || { echo "error: NODE_CACHE=$NODE_CACHE is another user's: name another folder" >&2 && exit 2; }
# The launcher would answer TERM by ending its ranks after 30 s, and die of USR1. It ignores both; the ranks, which
# get them from Slurm, too, save a checkpoint and exit. Until a rank is ready for that, it ignores them, too.
trap '' USR1 TERM
export PET_SIGNALS_TO_HANDLE=SIGINT
status=0
"$TRAIN_BIN/accelerate" launch --config_file "$ACCELERATE_CONFIG" \
  --num_machines "$TRAIN_NODES" --num_processes $(( TRAIN_NODES * RANKS_PER_NODE )) \
  --machine_rank "$SLURM_PROCID" --main_process_ip "$MAIN_ADDRESS" --main_process_port "$MAIN_PORT" \
  --deepspeed_multinode_launcher standard \
  --tee 3 --log_dir "$JOB_LOGS/ranks/node-$SLURM_PROCID" \
  "$RECIPE" "$@" || status=$?
echo "$status" >"$JOB_LOGS/status-$SLURM_PROCID"
exit "$status"
