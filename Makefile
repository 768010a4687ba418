# The verbs of everyday work; each runs in .venv, which `make setup` creates.
.PHONY: setup test lint docs bench demo build lock release

BIN := .venv/bin

setup:          ## create .venv with everything for development
	python3 -m venv .venv
	$(BIN)/pip install --quiet --constraint requirements.lock --editable '.[dev]'

test:           ## the tests
	$(BIN)/pytest

lint:           ## formatting, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs:           ## regenerate the pages that follow from the code
	$(BIN)/python -m tools.settings_page > docs/settings.md
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.dashboards
	$(BIN)/python -m tools.rule_tests
	$(BIN)/python -m tools.reliability

bench:          ## every budget beside its figure
	$(BIN)/python -m benchmarks

demo:           ## the dashboard on a simulated run
	$(BIN)/trntop demo

build:          ## sdist and wheel
	$(BIN)/python -m hatchling build

lock:           ## after a change of requirements.lock: the hashes of what runs in production
	$(BIN)/uv pip compile pyproject.toml --extra kubernetes --constraint requirements.lock \
		--generate-hashes --universal --python-version 3.11 --no-annotate --quiet \
		--custom-compile-command 'make lock' --output-file deploy/requirements.txt

release: build  ## with it: the requirements with hashes, audited, and an SBOM (CycloneDX) in dist/
	cp deploy/requirements.txt dist/requirements.txt
	$(BIN)/uv tool run pip-audit --strict --require-hashes --disable-pip \
		--requirement dist/requirements.txt
	$(BIN)/uv export --format cyclonedx1.5 --no-dev --quiet --output-file dist/sbom.json
