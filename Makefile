# make install: build .venv; make tour: a first look; make test: everything CI checks; make studies: every study;
# make site: the pages with all their code run again.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/uv pip install --quiet --constraint constraints.txt
# uv leaves the packages uncompiled: every process would compile JAX again, in 3 seconds, if none could keep its bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install tour test test-full test-jax checks lint types layers tests wheel docs site notebooks changelog fuzz \
  studies models release peers browse

install: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "stodyn needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	$(INSTALL) --python $(BIN)/python --editable '.[dev,docs]' || \
	  $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $@

tour: install
	$(BIN)/stodyn tour

# The tests, and everything else beside them.
test: install
	+$(MAKE) --jobs=2 tests checks

checks: lint layers types docs wheel

# With every case of the tests that `make test` asks in brief, some 670 more, 610 s of processor time; and with XLA's usual
# code, which takes longer to compile than the plain code that `make test` asks for.
test-full: install
	STODYN_FULL=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# The tests with another JAX: `make test-jax JAX=0.12` on every Python that it is tried with, PYTHON=3.13 (or a path) on
# one; without JAX= all of them. TESTS= names some tests.
test-jax: install
	$(BIN)/python .ci/test_jax.py $(JAX) $(if $(filter file,$(origin PYTHON)),,--python $(PYTHON)) $(TESTS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

layers: install
	$(BIN)/lint-imports

tests: install
	$(BIN)/python -m pytest -n 2 --dist worksteal

# More than 10 000 generated calls, some hundreds of generated functions by all executors, and 100 000 mutated files of
# every kind that stodyn reads itself, other ones every time; CI makes a few hundred, a dozen, and 1000.
fuzz: install
	STODYN_FUZZ=1 $(BIN)/python -m pytest tests/fuzz

# Every study at its small size (20 to 25 minutes of processor time); says at the end which failed.
studies: install
	$(BIN)/stodyn reproduce --all

# Every model at its default size with one method of each family that takes it (some minutes).
models: install
	STODYN_FULL=1 $(BIN)/python -m pytest -n 2 tests/models/test_default_sizes.py

# The site, from the outputs that are stored beside the examples and in the pages; then every link inside it.
docs: install
	$(BIN)/python docs/assemble.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file build/mkdocs.yml
	# What the theme brings for debugging and for searching in other languages, 2 MB.
	find site -name '*.map' -delete && rm -rf site/assets/javascripts/lunr
	$(BIN)/python docs/links.py site
	! command -v node > /dev/null || node docs/searches.js site  # asks the site's search what readers ask

# Every page of the site in Chromium, at 1280 and 390 pixels, light and dark (half an hour): nothing is wider than the
# window, missing, faint or an error. It needs Debian's chromium and `npm install --no-save playwright-core`.
browse: docs
	node docs/browse.js site

# The site with every example and every page run whole first (some minutes).
site: install
	$(BIN)/python docs/gallery.py
	$(BIN)/python docs/running.py
	$(BIN)/python docs/generate.py --recommend
	[ ! -d docs/studies ] || $(BIN)/stodyn reproduce --pages --out docs/studies
	$(BIN)/python docs/pictures.py
	+$(MAKE) docs

# Every tutorial and every entry of the gallery as a notebook, run at its small size (some minutes).
notebooks: install
	$(BIN)/python docs/notebooks.py

# CHANGELOG.md: the fragments in changes/ as Added, Changed and Fixed, before the released versions.
changelog: install
	$(BIN)/python docs/generate.py --changelog

# The wheel is built, installed alone into a scratch environment, and asked to simulate from outside the source tree.
wheel: install
	rm -rf build/wheel
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel . > /dev/null
	$(PYTHON) -m venv --without-pip build/wheel/venv
	$(INSTALL) --python build/wheel/venv/bin/python build/wheel/*.whl || \
	  $(BIN)/python -m pip --python build/wheel/venv/bin/python install --quiet --constraint constraints.txt build/wheel/*.whl
	cd build/wheel && venv/bin/stodyn tour --paths 1000 --out tour > /dev/null && venv/bin/stodyn methods > /dev/null
	rm -rf build/wheel/venv

# The wheel and the sdist of the version that the commit is tagged with, each tried on its own (.ci/release.py says how);
# nothing is uploaded. `make release RELEASE=--untagged` tries what is not tagged.
release: install
	$(BIN)/python .ci/release.py $(RELEASE)

# The page that compares numbers and costs with those of other tools (two minutes); they come with `pip install .[peers]`.
peers: install
	$(BIN)/python benchmarks/peers.py --page
