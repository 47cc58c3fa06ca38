# Two commands do everything: `make demo` and `make test`. Each makes the environment that it needs.
PYTHON ?= python3
VENV ?= .venv
# The build of torch to install; on a machine with another index or accelerator, e.g.
#   make demo TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
DONE := $(VENV)/.installed

.PHONY: demo test lint clean

demo: $(DONE)
	$(BIN)/accelerate launch --config_file accelerate_configs/cpu.yaml recipes/gspo.py

# Two files of tests at a time, each on one thread.
test: $(DONE) lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

$(DONE): setup.cfg pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"medgrpo needs Python 3.11 to 3.13, {sys.executable} is {v[0]}.{v[1]}: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -e ".[test]"
	touch $(DONE)

clean:
	rm -rf $(VENV)
