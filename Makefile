# The verbs of this project; CI calls the same ones. Every verb sets up what it needs.

# The first Python that is recent enough; else python3, which then says what to install.
PYTHON ?= $(or $(firstword $(foreach candidate,python3 python3.14 python3.13 python3.12 python3.11,\
  $(shell $(candidate) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(candidate)))),python3)
SETUP = @$(PYTHON) migrator/lab/bootstrap.py setup
BIN = .venv/bin
# Tests marked `alone` still have the machine to themselves (tests/support/turns.py), and come last (order.py there).
# Unit tests compute, one worker for each core; laboratory tests also wait, so a third file fits beside two.
FILES_BESIDE_EACH_OTHER = --dist loadfile --no-loadscope-reorder --durations 40 --durations-min 5
# Tests start hundreds of processes of ours. Where the environment forbids to keep bytecode, each would compile again
# what it imports: a controller then answers after 4.6 s in place of 1.2 s, on two cores.
KEEP_BYTECODE = PYTHONDONTWRITEBYTECODE=

.PHONY: setup smoke check test test-long docs sim model adversarial kill-matrix kill-matrix-back end-of-road estate estate-real soak poison plants clean-runs mutants lab demo docker-images docker-test test-kerberos takeover bench-quorum bench-fail-over bench-copy bench-dual-write bench-real-broker bench-rehearse bench-audit bench-third-side bench-audit-load bench-remote-log bench-mass bench-road bench-brokers bench-hosts

setup:  ## make .venv what uv.lock says
	$(SETUP)

SMOKE = tests/unit/model tests/unit/wire tests/unit/raft tests/unit/state_machine/policy/test_phase_table.py \
  tests/unit/state_machine/policy/test_road_gates.py tests/unit/state_machine/rolling/test_roll_on_fakes.py tests/unit/state_machine/policy/test_roll_conditions.py \
  tests/e2e/test_rollback.py::test_the_cluster_goes_back_after_200_isr_changes

smoke:  ## under three minutes: lint, the fast unit tests, and one real cluster to dual-write and back
	$(SETUP) --with-java
	$(BIN)/ruff check .
	$(KEEP_BYTECODE) $(BIN)/pytest -n 2 --dist loadfile $(SMOKE)

check:  ## lint, types, unit tests, simulation and scenarios; no network, no Java
	$(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(KEEP_BYTECODE) $(BIN)/pytest -n 2 $(FILES_BESIDE_EACH_OTHER) tests/unit $(wildcard tests/sim tests/scenarios)

test:  ## all but the long ones, the laboratory included; TESTS says which, and a file named there runs whole
	$(SETUP) --with-java
	$(KEEP_BYTECODE) $(BIN)/pytest -n 3 $(FILES_BESIDE_EACH_OTHER) $(if $(findstring .py,$(TESTS)),,-m "not long") $(or $(TESTS),tests)

test-long:  ## the long ones of the laboratory: many crashes, releases of Kafka, interruptions
	$(SETUP) --with-java
	$(KEEP_BYTECODE) $(BIN)/pytest -n 3 $(FILES_BESIDE_EACH_OTHER) -m long tests/e2e tests/estate

docs:  ## the documentation as a site in site/; strict: a link or an anchor that leads nowhere fails, and so does a stale reference
	$(SETUP)
	$(BIN)/python -m tests.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean

sim:  ## the quorum in bad weather; FIRST and SEEDS say which
	$(SETUP)
	$(BIN)/python -m tests.sim run --first $(or $(FIRST),0) --seeds $(or $(SEEDS),2000)

model:  ## the quorum in every order; needs spin and gcc (docs/model/README.md)
	$(SETUP)
	ZK2KRAFT_MODEL_WHOLE=1 $(BIN)/pytest tests/model -s
	$(BIN)/python -m tests.model.checked --save

adversarial:  ## takeovers cut short under load on real servers, ROUNDS of them (200 take about 45 minutes; docs/adversarial.md)
	$(SETUP) --with-java
	$(BIN)/python -m tests.adversarial.takeovers --rounds $(or $(ROUNDS),200)

kill-matrix:  ## kill -9 of service, leader, broker and ZooKeeper around every durable write of the road, in PARTS whole runs (12 take about an hour)
	$(SETUP) --with-java
	$(BIN)/python -m tests.adversarial.road --parts $(or $(PARTS),12)

kill-matrix-back:  ## the same points up to FINALIZING, a rollback asked at each, somebody else killed in it; each run then goes to COMPLETED, in PARTS runs (4; about 90 minutes)
	$(SETUP) --with-java
	$(BIN)/python -m tests.adversarial.road_back --parts $(or $(PARTS),4)

end-of-road:  ## the stories that decide about the end of the road, one cluster each; STORIES says which (docs/adversarial.md)
	$(SETUP) --with-java
	$(BIN)/python -m tests.adversarial.end_of_road $(if $(STORIES),--only $(STORIES))

estate:  ## the service on six hosts with ssh, faults at every call of its actuators, SEEDS runs from FIRST (a run takes 15 to 60 s beside other work; none begins after 15 minutes), ten from the first restart on, and one dead host in each phase (DEAD=NAME: that one, and no seed)
	$(SETUP)
	$(if $(DEAD),,$(KEEP_BYTECODE) $(BIN)/python -m tests.estate --first $(or $(FIRST),0) --seeds $(or $(SEEDS),60) --minutes 15)
	$(if $(DEAD)$(FIRST)$(SEEDS),,$(KEEP_BYTECODE) $(BIN)/python -m tests.estate --join --seeds 10 --minutes 10)
	$(if $(FIRST)$(SEEDS),,$(KEEP_BYTECODE) $(BIN)/python -m tests.estate --dead $(or $(DEAD),all) --minutes 15)

estate-real:  ## the whole road and back over ssh with real brokers, while links fail, SEEDS runs from FIRST (three; five to ten minutes each)
	$(SETUP) --with-java
	$(KEEP_BYTECODE) $(BIN)/python -m tests.estate.real --first $(or $(FIRST),0) --seeds $(or $(SEEDS),3)

soak:  ## two brokers of three in KRaft mode, our controllers, the service, traffic, changes and trouble for MINUTES (120; docs/adversarial.md)
	$(SETUP) --with-java
	$(BIN)/python -m tests.adversarial.soak --minutes $(or $(MINUTES),120)

poison:  ## odd requests, frames, brokers and znodes against a real cluster in dual-write, ROUNDS of them (120 take about 10 minutes; docs/adversarial.md)
	$(SETUP) --with-java
	$(BIN)/python -m tests.adversarial.poison --rounds $(or $(ROUNDS),120)

mutants:  ## hand-made faults in safety-critical lines, and whether the tests find each (docs/mutants.md; 30 minutes)
	$(SETUP)
	$(BIN)/python -m tests.mutants --save

lab:  ## a ZooKeeper and three brokers, until Ctrl-C
	$(SETUP) --with-java
	$(BIN)/python -m migrator.lab

demo:  ## a whole migration in the laboratory
	$(SETUP) --with-java
	$(KEEP_BYTECODE) $(BIN)/zk2kraft demo

docker-images:  ## the images of docker/: zk2kraft, and Kafka 3.9 with ZooKeeper; of Debian's packages where no registry can be reached
	$(SETUP) --with-java
	tests/docker/install
	$(BIN)/python -m tests.docker.images

docker-test:  ## the images and docker/compose.yaml with a real engine, a migration to the end and one back from SOAK (30 minutes); installs Debian's engine where it may
	$(SETUP) --with-java
	tests/docker/install
	ZK2KRAFT_DOCKER=1 $(KEEP_BYTECODE) $(BIN)/pytest -rs --durations 10 tests/docker

test-kerberos:  ## there and back where ZooKeeper, brokers and ours log in by Kerberos; installs Debian's key server where it may
	$(SETUP) --with-java
	tests/support/install_kerberos
	$(KEEP_BYTECODE) $(BIN)/pytest -rs --durations 10 tests/e2e/test_zookeeper_logins.py tests/e2e/test_broker_logins.py \
	  tests/e2e/test_stock_engine_logins.py

takeover:  ## our controllers against a real cluster, measured
	$(SETUP) --with-java
	$(BIN)/python -m migrator.lab.takeover

bench-quorum:  ## ZooKeeper, stock KRaft and ours under the same metadata load; renews docs/benchmarks.md (10 minutes)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.quorum --save

bench-fail-over:  ## kill active controllers, ours and stock's, measured
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.fail_over

bench-copy:  ## the same tree taken over by ours and by stock, measured (10 minutes); TOPICS says how many
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.copy --topics $(or $(TOPICS),10000) --save

bench-brokers:  ## what each further broker costs, and a takeover that waits, beside the checkout BASE (20 minutes)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.brokers $(if $(BASE),--base $(BASE))

bench-hosts:  ## sixty brokers on slow hosts, beside the checkout BASE (6 minutes)
	$(BIN)/python -m tests.benchmarks.hosts $(if $(BASE),--base $(BASE))

bench-real-broker:  ## one real broker with 10,000 partitions taken over, ours and stock (5 minutes)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.real_broker

bench-rehearse:  ## the same tree copied into a directory, measured (2 minutes)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.rehearse

plants:  ## random single faults on ZooKeeper's, the log's and the brokers' side, PLANTS of them: every engine has to name each (500 take about 40 minutes; docs/adversarial.md)
	$(SETUP) --with-java
	$(BIN)/python -m tests.adversarial.plants --plants $(or $(PLANTS),500)

clean-runs:  ## audits of three sides while administrators change everything, AUDITS of them (500 take about 25 minutes): all have to pass (docs/adversarial.md)
	$(SETUP) --with-java
	$(BIN)/python -m tests.adversarial.clean_runs --audits $(or $(AUDITS),500)

bench-audit:  ## the Spark audit of small and large trees, cold and warm, measured (10 minutes); TOPICS says how many
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.audit $(if $(TOPICS),--topics $(TOPICS))

bench-third-side:  ## what asking every broker adds to an audit in dual-write, measured (3 minutes)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.third_side

bench-audit-load:  ## what a running audit does to the latency of others, on ZooKeeper and on brokers (docs/performance.md)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.audit_load

bench-remote-log:  ## reading a large __remote_log_metadata, measured (1 minute)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.remote_log

bench-mass:  ## a broker in sync with 30,000 to 300,000 partitions is fenced and comes back, measured (10 minutes)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.mass

bench-road:  ## the whole road, stock by hand and ours by the service, in one table; renews docs/performance.md (8 minutes)
	$(SETUP) --with-java
	$(KEEP_BYTECODE) $(BIN)/python -m tests.benchmarks.stock_road --save

bench-dual-write:  ## changes after the takeover, ours and stock, measured (10 minutes)
	$(SETUP) --with-java
	$(BIN)/python -m tests.benchmarks.dual_write
