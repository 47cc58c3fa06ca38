# shellcheck shell=bash disable=SC2034
# What differs from site to site: edit this file (or name another: SITE=mysite.sh sbatch launch/train_8x8.sbatch).
# Account, partition and QoS are sbatch's own: export SBATCH_ACCOUNT=..., SBATCH_PARTITION=..., SBATCH_QOS=...

# The model: a folder that every node reads. Compute nodes download nothing.
MODEL=/shared/models/Qwen3-Next-80B-A3B-Instruct

# Logs and API key, on storage that every node sees. Checkpoints go where the experiment's output_dir says.
LOGS=runs/slurm

# Hugging Face's cache on shared storage (tokenizer, datasets), compiled kernels on each node's own disk.
HF_HOME=/shared/huggingface
NODE_CACHE=/tmp/medgrpo-$SLURM_JOB_USER

# How a command runs in the image made from launch/medgrpo.def, with the paths that it must see; CONTAINER=() runs
# without one.
CONTAINER=(apptainer exec --nv --bind "/shared,$PWD" /shared/images/medgrpo.sif)

# The environment's programs, and the Python that has vLLM (another one where vLLM has its own environment).
TRAIN_BIN=/opt/medgrpo/bin
SERVE_PYTHON=/opt/medgrpo/bin/python

# How weights reach the rollout server, whatever vllm_sync the YAML has: filesystem (a folder on shared storage), or
# nccl (GPU to GPU; never run so far).
SYNC=filesystem

# The network between nodes (`ip -br address`), e.g. ib0; empty lets NCCL choose. NCCL_IB_HCA etc.: export here.
NETWORK_INTERFACE=

# Seconds that the rollout server may take to load the model.
SERVER_TIMEOUT=1800

# What the job needs before anything starts, e.g. `module load cuda apptainer`.
prepare_site() {
  :
}
