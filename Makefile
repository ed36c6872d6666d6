# The front door: everything here is one verb of ./dev, which has the details (./dev help).
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.PHONY: help deps build demo test check install clean

help:
	@echo "make demo      install what is missing, build, run a real network's GEMMs against oneDNN"
	@echo "make test      install what is missing, build, run every test"
	@echo "make build     build the release preset into build/release"
	@echo "make install   install it into PREFIX (now $(PREFIX))"
	@echo "make check     format, lint, layers, schemas, fuzzing: what a change must pass"
	@echo "make deps      only install what is missing"
	@echo "make clean     remove build/"

deps build demo test check clean:
	@./dev $@

install:
	@./dev install "$(PREFIX)"
