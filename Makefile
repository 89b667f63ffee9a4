# Everything a person types. `make demo` needs Python 3.10+ alone; `make test` also Java 17+ and Maven for the Kafka broker.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
