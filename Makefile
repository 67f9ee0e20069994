# Needs make and Python 3.11 to 3.13, nothing else: everything is installed into .venv in this folder.
# Paths are relative throughout, and console scripts are called as modules, since a folder's name may hold a space.

PYTHON ?= python3
BACKEND ?= tensorflow
BACKENDS ?= tensorflow jax torch
ARGS ?=

KNOWN_BACKENDS := tensorflow jax torch
STAMPS := .venv/.stamps

# TensorFlow's start-up chatter would bury what the commands say.
export TF_CPP_MIN_LOG_LEVEL ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Checked while the file is read, so that a typing error stops before anything is installed.
ifneq ($(filter demo,$(MAKECMDGOALS)),)
ifneq ($(words $(BACKEND))$(filter-out $(KNOWN_BACKENDS),$(BACKEND)),1)
$(error unknown BACKEND=$(BACKEND): choose one of $(KNOWN_BACKENDS))
endif
endif
ifneq ($(filter test,$(MAKECMDGOALS)),)
ifneq ($(if $(strip $(BACKENDS)),,none)$(filter-out $(KNOWN_BACKENDS),$(BACKENDS)),)
$(error unknown BACKENDS="$(BACKENDS)": choose from $(KNOWN_BACKENDS))
endif
endif

.DEFAULT_GOAL := help
.PHONY: help demo test bench lint format
# Two installations into one environment must not run at once.
.NOTPARALLEL:

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(STAMPS)/demo-$(strip $(BACKEND)) ## train a small model and look inside it (BACKEND=tensorflow|jax|torch)
	KERAS_BACKEND=$(strip $(BACKEND)) .venv/bin/python examples/quickstart.py $(ARGS)

test: $(STAMPS)/test ## run the suite on each backend (BACKENDS="jax torch", ARGS="-k attention")
	@failed=; \
	for backend in $(BACKENDS); do \
		echo "== tests on $$backend"; \
		KERAS_BACKEND=$$backend .venv/bin/python -m pytest -q -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder $(ARGS) || failed="$$failed $$backend"; \
	done; \
	if [ -n "$$failed" ]; then echo "tests failed on:$$failed"; exit 1; fi

bench: $(STAMPS)/bench ## measure speed beside other libraries (ARGS=--full: all of it, hours)
	.venv/bin/python benchmarks/run.py $(ARGS)

lint: $(STAMPS)/dev ## check style and formatting
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .

format: $(STAMPS)/dev ## mend what the linter can mend by itself
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .

# What each stamp installs. One environment serves them all: they add to it.
$(STAMPS)/demo-tensorflow: EXTRAS := tf,plot
$(STAMPS)/demo-jax: EXTRAS := tf,jax,plot
$(STAMPS)/demo-torch: EXTRAS := tf,torch,plot
$(STAMPS)/dev: EXTRAS := dev
$(STAMPS)/bench: EXTRAS := tf,jax,torch,plot,bench
$(STAMPS)/test: EXTRAS := tf,jax,torch,plot,dev

$(STAMPS)/%: $(STAMPS)/python pyproject.toml constraints.txt
	@echo "Installing [$(EXTRAS)] into .venv; the first time takes minutes."
	@.venv/bin/python -m pip install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

$(STAMPS)/python:
	@command -v "$(PYTHON)" >/dev/null || \
		{ echo "No $(PYTHON) here. Choose another: make PYTHON=python3.12 ..."; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
		{ echo "Python 3.11, 3.12 or 3.13 is needed; $(PYTHON) is $$("$(PYTHON)" --version 2>&1). Choose another: make PYTHON=python3.12 ..."; exit 1; }
	"$(PYTHON)" -m venv --clear .venv
	@mkdir -p $(STAMPS) && touch $@
