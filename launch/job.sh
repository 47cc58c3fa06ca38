# shellcheck shell=bash disable=SC2153
# What every training job does, whatever its size; sourced by train_*.sbatch, not run by hand.
# The rollout server on the first node, training on the others. Before the time limit Slurm sends USR1 here: the ranks
# save and stop, the job is queued again under its number, and goes on from its last complete checkpoint.
set -euo pipefail

say() { printf '%s %s\n' "$(date '+%F %T')" "$*"; }
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

[[ -n ${SLURM_JOB_ID:-} ]] || fail "not a Slurm job: start it with sbatch launch/train_8x8.sbatch"
[[ -f launch/job.sh ]] || fail "$PWD is not the project's folder: call sbatch in it"
SITE=${SITE:-launch/site.sh}
[[ -f $SITE ]] || fail "SITE=$SITE: there is no such file"
# shellcheck source=launch/site.sh
source "$SITE"
prepare_site

for file in "$RECIPE" "$CONFIG" "$ACCELERATE_CONFIG" "${CONTAINER[@]:(-1)}"; do
  [[ -f $file ]] || fail "$file: there is no such file"
done
(( ROLLOUT_NODES == 0 || ROLLOUT_NODES == 1 )) || fail "ROLLOUT_NODES=$ROLLOUT_NODES: a run has one rollout server, or none"
(( TRAIN_NODES + ROLLOUT_NODES == SLURM_JOB_NUM_NODES )) ||
  fail "TRAIN_NODES=$TRAIN_NODES and ROLLOUT_NODES=$ROLLOUT_NODES, but the job has $SLURM_JOB_NUM_NODES nodes"

# A node's address as Slurm has it, which need not be its name.
address_of() { scontrol show node "$1" --oneliner | sed -n 's/.* NodeAddr=\([^ ]*\) .*/\1/p'; }
joined() { local IFS=,; echo "$*"; }

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
rollout_nodes=("${nodes[@]:0:ROLLOUT_NODES}")
train_nodes=("${nodes[@]:ROLLOUT_NODES}")
restarts=${SLURM_RESTART_COUNT:-0}
port=$(( 20000 + SLURM_JOB_ID % 10000 ))
export JOB_LOGS=$LOGS/$SLURM_JOB_ID.$restarts
mkdir -p "$JOB_LOGS"
say "job $SLURM_JOB_ID, start $(( restarts + 1 )): training on $(joined "${train_nodes[@]}")," \
  "rollouts on ${rollout_nodes[*]:-no node of their own}; logs in $JOB_LOGS"

# A communication that failed ends its process instead of hanging, so that the job ends and can be started again.
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1 NCCL_DEBUG=${NCCL_DEBUG:-WARN}
if [[ -n $NETWORK_INTERFACE ]]; then
  export NCCL_SOCKET_IFNAME=$NETWORK_INTERFACE GLOO_SOCKET_IFNAME=$NETWORK_INTERFACE
fi
export HF_HOME HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1 PYTHONUNBUFFERED=1 PYTHONNOUSERSITE=1
# Many ranks compiling into one folder on shared storage wait for each other's locks.
export NODE_CACHE TRITON_CACHE_DIR=$NODE_CACHE/triton TORCHINDUCTOR_CACHE_DIR=$NODE_CACHE/inductor
export TORCH_EXTENSIONS_DIR=$NODE_CACHE/extensions VLLM_CACHE_ROOT=$NODE_CACHE/vllm
export MODEL RECIPE ACCELERATE_CONFIG TRAIN_BIN SERVE_PYTHON TRAIN_NODES RANKS_PER_NODE MAIN_PORT=$port
MAIN_ADDRESS=$(address_of "${train_nodes[0]}")
export MAIN_ADDRESS

steps=() train='' stopped=''

# srun that is told to end kills its step: the server does not outlive the training.
end_steps() { (( ${#steps[@]} == 0 )) || kill "${steps[@]}" 2>/dev/null || true; }
trap end_steps EXIT

# Slurm's USR1 comes to this script alone (#SBATCH --signal=B:USR1@...); srun passes it on to every rank.
# shellcheck disable=SC2317,SC2329  # called by the trap; the second is the newer shellcheck's name for it
save_and_stop() {
  say "the time is nearly up: the ranks save a checkpoint and stop"
  stopped=1
  [[ -z $train ]] || kill -USR1 "$train" 2>/dev/null || true
}
trap save_and_stop USR1
# Cancelled or requeued: Slurm tells the ranks itself, and they have its KillWait seconds to save.
trap 'say "Slurm ends the job"' TERM

# start NAME NODE,NODE COMMAND...: one task on each node, with its own log; its srun's process is $started.
start() {
  local name=$1 list=$2 count
  shift 2
  count=$(wc -w <<<"${list//,/ }")
  srun --job-name="$name" --nodes="$count" --ntasks="$count" --ntasks-per-node=1 --nodelist="$list" \
    --cpu-bind=none --kill-on-bad-exit=1 --output="$JOB_LOGS/$name-%n.log" "${CONTAINER[@]}" "$@" &
  started=$!
  steps+=("$started")
}

alive() { kill -0 "$1" 2>/dev/null; }

# Unlike `sleep`, `wait` is interrupted by a signal, so that traps run at once.
nap() {
  sleep "$1" &
  wait $! || true
}

wait_for_server() {
  local url=$1 server=$2 deadline=$(( SECONDS + SERVER_TIMEOUT ))
  until curl --silent --fail --output /dev/null --noproxy '*' --header "@$JOB_LOGS/authorization" "$url/health"; do
    if ! alive "$server" || (( SECONDS >= deadline )); then
      tail -n 20 "$JOB_LOGS"/rollouts-*.log >&2 || true
      fail "no rollout server at $url (waited $SECONDS s of $SERVER_TIMEOUT); its log is in $JOB_LOGS"
    fi
    nap 2
  done
  say "the rollout server at $url is ready"
  # From now on it is started again when it ends; the trainer waits for it, and sends it the weights.
  touch "$JOB_LOGS/server-was-ready"
}

rollout_arguments=()
if (( ROLLOUT_NODES == 1 )); then
  export ROLLOUT_PORT=$(( port + 1 )) ROLLOUT_KEY_FILE=$JOB_LOGS/key SYNC ENGINE_ARGS
  (
    umask 077
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$ROLLOUT_KEY_FILE"
    printf 'Authorization: Bearer %s\n' "$(<"$ROLLOUT_KEY_FILE")" >"$JOB_LOGS/authorization"
  )
  url=http://$(address_of "${rollout_nodes[0]}"):$ROLLOUT_PORT
  start rollouts "${rollout_nodes[0]}" bash launch/rollout_node.sh
  wait_for_server "$url" "$started"
  rollout_arguments=(--use_vllm true --vllm_mode server --vllm_server_base_url "$url"
    --vllm_api_key_file "$ROLLOUT_KEY_FILE" --vllm_sync "$SYNC")
fi

start train "$(joined "${train_nodes[@]}")" bash launch/train_node.sh --config "$CONFIG" \
  --model_name_or_path "$MODEL" --resume_from_checkpoint auto "${rollout_arguments[@]}" "$@"
train=$started
while alive "$train"; do
  # Ranks that were still loading when the time came have not heard it.
  [[ -z $stopped ]] || kill -USR1 "$train" 2>/dev/null || true
  nap 5
done
status=0
wait "$train" || status=$?

ranks=$JOB_LOGS/ranks
if (( status != 0 )); then
  # srun's own status is that of the nodes which it killed because one had failed.
  for file in "$JOB_LOGS"/status-*; do
    [[ ! -f $file || $(<"$file") == 0 ]] || status=$(<"$file")
  done
  say "training failed with status $status; all that the ranks wrote is in $ranks; their errors:"
  grep -rhE '^(\[rank[0-9]+\]: )?(([A-Za-z_]+\.)*[A-Za-z]*(Error|Exception)|error)\b' "$ranks" | sort | uniq -c || true
elif ! grep -rqs '^stopped by SIG' "$ranks/node-0"; then
  say "training is done"
elif [[ $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) == RUNNING ]]; then
  say "training has saved and stopped; the job is queued again"
  end_steps
  scontrol requeue "$SLURM_JOB_ID"
else
  # Requeueing a cancelled job would revive it; a job that is being requeued comes back by itself.
  say "training has saved and stopped"
fi
exit "$status"
