"""What all tests share: hypothesis without deadlines (no test asserts a time), and the real streams."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import socket
import sys
import warnings
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from streamnb.config import Config

HELD = pytest.StashKey()
LOGS = ["sqlite", "kafka"]
"""What `open_log` opens, unless a file has LOGS of its own; "librdkafka" is Kafka by another client."""
ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"

# What tests share, and what one room of tests takes from another.
sys.path[:0] = sorted({str(path.parent) for path in TESTS.rglob("*.py")})
pytest_plugins = ["broker_fixtures"]

# How long examples take to make depends on what else the machine does.
TIMELESS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", max_examples=25, **TIMELESS)
settings.register_profile("ci", max_examples=25, derandomize=True, print_blob=True, **TIMELESS)
settings.register_profile("storm", max_examples=1000, **TIMELESS)
settings.register_profile("fast", max_examples=10, **TIMELESS)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") == "true" else "default")
settings.load_profile(PROFILE)

STREAMS = Path(os.environ.get("LABELLED_STREAMS", Path(__file__).resolve().parents[2] / "shared" / "data"))


LONG = ["storm", "golden", "replicas", "shards", "kafka_outage", "crash_points", "zombies", "kafka_security", "watchdog", "wheel", "poison",
        "negative_controls", "late_storm", "river_checks", "end_to_end", "rollback", "changes_between_starts", "drift",
        "long_work", "latency", "service_bench", "kafka_log", "brokers", "states", "rebuild", "explain", "log_contract",
        "worker", "serve", "dashboard", "score", "topic_plan", "late_labels", "lives_by_command",
        "verify_features", "actions", "tenants", "tenant_models", "memory_of_tenants", "other_configuration",
        "monitors", "commands", "memory", "jit", "laws_on_logs", "aliases", "packaging", "labels_on_logs", "kubernetes",
        "dlq", "corrections", "history", "budgets_that_change", "laws", "doctor", "hand_over", "report",
        "times", "damage", "dry_run", "killed_take_up", "learner", "saved", "ask", "librdkafka", "deploy", "alarms",
        "odd_values", "whereabouts", "entity_chains", "standings"]  # fmt: skip
"""Files that take long begin first: those that wait beside those that keep the processors busy with many lives."""

THOROUGH = (
    "adapters/kafka/test_brokers.py",
    "adapters/kafka/test_failures.py",
    "adapters/kafka/test_kafka_log.py",
    "adapters/kafka/test_kafka_outage.py",
    "adapters/kafka/test_kafka_security.py",
    "adapters/kafka/test_lost_markers.py",
    "adapters/test_watchdog.py",
    "benchmarks/test_bench.py",
    "benchmarks/test_latency.py",
    "benchmarks/test_service_bench.py",
    "cli/test_compiling.py",
    "cli/test_rehearsal.py",
    "cli/test_snapshot_command.py",
    "cli/test_wheel.py",
    "crashes/",
    "engine/rebuilding/test_killed_take_up.py",
    "engine/test_changes_between_starts.py",
    "engine/test_rollback.py",
    "engine/test_saving.py",
    "engine/test_strays.py",
    "engine/verification/test_verify.py",
    "engine/verification/test_verify_damage.py",
    "hostile/",
    "laws/test_river_checks.py",
    "laws/test_streams.py",
    "model/concepts/",
    "model/evaluation/test_drift.py",
    "model/linear/test_logistic_regression.py",
    "model/mixture/test_binned_density.py",
    "model/mixture/test_evidence.py",
    "model/mixture/test_hypotheses.py",
    "model/mixture/test_learners.py",
    "model/posterior/",
    "model/pairs/",
    "service/test_mixture.py",
    "storm/test_replicas.py",
    "storm/test_late_storm.py",
    "worker/test_commit_under_way.py",
    "worker/test_long_work.py",
    "worker/test_unattended.py",
)
"""What `make test-all` runs after `make test`: what takes half a minute or more, and more of a kind of which that has one."""

SAMPLED = {
    "adapters/log/test_log_contract.py": r"\[librdkafka\b|after_a_silence.*heartbeat|does_not_follow.*\[kafka-(successor-[139]|same-[019])",
    "adapters/kafka/test_librdkafka.py": "expires_inside",
    "cli/test_commands.py": r"give_the_same\[evidence",
    "cli/test_dlq.py": r"outcome_is_unknown.*\[kafka-False",
    "cli/test_doctor.py": "user_lacks|wrong_password",
    "cli/test_dry_run.py": r"does_not_notice\[kafka",
    "cli/test_explain.py": r"\[kafka-|derived_again.*\[sqlite-(semi_supervised|logistic|naive)|a_large_event|(rolled_back|has_taken).*\[kafka|(which_label|were_forgotten|not_what_was|comes_again|then_and_now).*\[kafka",
    "cli/test_history.py": r"\[(kafka-mixture|sqlite-naive_bayes)|rolled_back_or_forgotten.*\[kafka|(retention_took|labels_in_events).*\[kafka",
    "cli/test_odd_fields.py": "long_stream",
    "cli/test_report.py": "in_a_browser",
    "engine/labels/test_labels_on_logs.py": r"\[kafka-(?!ranks|hypotheses)|(weigh_no_hypotheses|can_be_added).*\[kafka",
    "engine/labels/test_late_labels.py": "go_through_prunings|source_never_spoke|default_mixture_takes",
    "engine/labels/test_laws_on_logs.py": r"(learned_anew_is|delay_in_events|labels_inside).*\[kafka",
    "engine/rebuilding/test_aliases.py": r"\[(kafka|sqlite)-model1",
    "engine/rebuilding/test_hand_over.py": r"on_a_full_disk|in_all_partitions\[kafka",
    "engine/rebuilding/test_other_configuration.py": r"\[kafka-(?!to a mixture)|\[sqlite-(with other|to naive|that forgets)",
    "engine/rebuilding/test_quarantine_rebuilt.py": r"\[kafka-naive_bayes",
    "engine/rebuilding/test_rebuild.py": r"\[kafka-(naive_bayes|pruned|attribute|key)\b|\[sqlite-(naive_bayes|pruned)\b|(brings_it_back|carried_their_labels)\[kafka|twentieth.*\[sqlite|everything_was_forgotten.*\[kafka|once_for_each_who_asks\[kafka",
    "engine/test_actions.py": r"restarts_change_nothing\[\((1, 17|130, 333, 50)\)|everyone_repeats_it\[kafka-(?!both-True)",
    "engine/test_learner.py": r"cut_is_unobservable\[evidence",
    "engine/test_memory.py": "labels_come_late|not_for_their_features",
    "engine/test_memory_of_tenants.py": "labels_come_late|as_many_labels_as",
    "engine/test_monitors.py": r"rare_as_stated.*\[(spam-predictions|sure)|misses.*\[spam",
    "engine/test_topic_plan.py": "planned_acls|may_nothing",
    "engine/test_whereabouts.py": r"\[librdkafka|\[kafka-PutBack",
    "engine/verification/test_verify_features.py": r"\[10-",
    "engine/verification/test_verify_hypotheses.py": r"\[10-",
    "house/test_kubernetes.py": "pods_run",
    "house/test_packaging.py": "built|wheel|readme",
    "laws/test_beside.py": "def network",
    "laws/test_budgets_that_change.py": r"not_taken_back.*\[(chains|mixture)",
    "model/compiled/test_jit.py": r"told_to_stop.*\[(run-(1|2)-|serve)|damaged_is_compiled_again|came_with_the_package",
    "model/encoding/test_vocabulary.py": r"same_dictionary.*\[16384",
    "model/evaluation/test_progressive.py": "ten_million",
    "model/mixture/test_bayes_optimal.py": r"real_stream\[0\.01",
    "model/mixture/test_one_dependence.py": "run_again_and_verified",
    "model/naive_bayes/test_semi_supervised.py": "long_stream",
    "model/tenants/test_tenant_models.py": r"be_alone\[reading\d-(4000|40000)\]",
    "service/test_alarms.py": r"no_other\[kafka-(gradual|flipped|stopped)",
    "service/test_end_to_end.py": r"\[librdkafka\b|kill_9",
    "service/test_score.py": "program1|kills_freezes|-deliver|-send|dies|without|beside|found|waited_for|gone|large",
    "service/test_serve.py": r"(rollback_and_a_rebuild|not_the_learners|what_is_wrong|let_in).*\[kafka",
    "service/test_shards.py": r"whoever_is_killed|is_found\[(twice|ahead|less)",
    "service/test_standings.py": r"labels_come_late|tombstone\[kafka|last_record\[kafka",
    "service/test_times.py": r"(of_before|half_lives|after_the_record|lost_their_way).*\[kafka",
    "worker/test_worker.py": r"log_changes_nothing\[kafka-1-|no_restart\[kafka-1|log_changes_nothing\[kafka-(64|1000)-",
}
"""Of these files `make test` runs a sample, and `make test-all` what the names of tests say here: the same law on Kafka
for other models or through the other client, where `make test` has it on the embedded log; further cases of a law; long
streams; storms but the one; and what needs a broker with ACLs or of its own, a wheel, or pods, which `make test-all` alone
makes."""

STORMS = {
    "adapters/kafka/test_kafka_outage.py": r"cut_at_any_step.*\[librdkafka|outlive_an_outage\[silence|lost_are_written_once\[librdkafka",
    "adapters/kafka/test_kafka_security.py": r"down_for_a_while.*\[librdkafka|(exactly_the_acls|see_and_not_write|bearer_token|dry_run).*\[librdkafka|one_acl.*-librdkafka",
    "adapters/test_watchdog.py": r"the_client_that_hangs.*\[poll|left_in_peace",
    "benchmarks/test_bench.py": "",
    "benchmarks/test_latency.py": "",
    "benchmarks/test_service_bench.py": "",
    "cli/test_explain.py": r"\[kafka-(?!mixture)|(which_label|were_forgotten|not_what_was|comes_again|then_and_now).*\[kafka",
    "cli/test_wheel.py": "",
    "crashes/test_crash_points.py": r"on_kafka\[(kafka-3|librdkafka|hidden_markov)",
    "crashes/test_negative_controls.py": r"learned_again\[ReadsBefore|\[kafka-",
    "engine/rebuilding/test_killed_take_up.py": "another kind",
    "engine/rebuilding/test_other_configuration.py": r"\[kafka-(?!to a mixture)",
    "engine/rebuilding/test_quarantine_rebuilt.py": r"\[kafka-naive_bayes",
    "engine/rebuilding/test_rebuild.py": r"twentieth.*\[kafka|\[kafka-(naive_bayes|pruned|attribute|key)\b|everything_was_forgotten.*\[kafka|once_for_each_who_asks\[kafka",
    "engine/test_actions.py": r"everyone_repeats_it\[kafka-(?!both-True)",
    "engine/test_changes_between_starts.py": r"\[kafka-(?!name|model.alpha|values|True)",
    "engine/test_rollback.py": r"any_life.*\[kafka-[12]|goes_on_from_there\[kafka-90-(?!deleted)|earlier_record\[kafka-(?!4)|any_life.*\[sqlite-[345]",
    "adapters/kafka/test_kafka_log.py": r"standby_takes_over.*\[librdkafka",
    "hostile/test_any_record.py": r"\[librdkafka",
    "hostile/test_poison.py": r"\[librdkafka|of_its_own\[sqlite|900_characters\[sqlite",
    "laws/test_river_checks.py": r"test_river_checks\[(LogOpinionPool|CalibratedNB|CategoricalNB|BernoulliNB|HiddenMarkovNB)\]|native_hypotheses\[map, forgetting|of_a_mixture\[[12]\]",
    "model/evaluation/test_drift.py": r"cut_is_unobservable\[evidence|(may_change|give_the_same).*\[kafka",
    "service/test_alarms.py": r"no_other\[kafka-(gradual|flipped|stopped_stream)",
    "service/test_end_to_end.py": r"\[librdkafka\b",
    "service/test_score.py": "program1-(?!send)",
    "service/test_shards.py": "whoever_is_killed",
    "storm/test_late_storm.py": "",
    "storm/test_replicas.py": r"\[",
    "worker/test_worker.py": r"log_changes_nothing\[kafka-(64|1000)-",
}
"""Of what is thorough `make storm` alone runs what is a storm, what takes minutes and restates a law through the other client,
for another model or with another seed, and the tests of the tools that measure."""

BROKERS = {"broker", "cluster", "lone", "lone_broker", "own", "secured_broker", "three_nodes"}


def pytest_configure(config):
    """Hold the port on which learners answer by default: a test that forgets to say where its own answer always fails.

    Else it fails now and then, when the learner of another test is there at the same time.
    """
    if not hasattr(config, "workerinput"):
        held = config.stash[HELD] = socket.socket()
        with contextlib.suppress(OSError):  # another run of the tests holds it, or a learner
            held.bind(Config().http.address)


def pytest_unconfigure(config):
    if HELD in config.stash:
        config.stash[HELD].close()


def inside(path):
    """As the tuples above name it."""
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


def is_of(sample, item):
    rest = sample.get(inside(item.path))
    return rest is not None and re.search(rest, item.name) is not None


def is_thorough(item):
    return inside(item.path).startswith(THOROUGH) or is_of(SAMPLED, item)


def pytest_ignore_collect(collection_path, config):
    """To import and rewrite a file whose tests are all left out takes as long as many of them."""
    wanted = {"not thorough": False, "thorough": True}.get(config.option.markexpr.rpartition(" and ")[2])
    name = inside(collection_path)
    is_left_out = wanted is not None and name.startswith(THOROUGH) != wanted and name not in SAMPLED
    return True if is_left_out and collection_path.suffix == ".py" else None


def pytest_collection_modifyitems(config, items):
    order = {f"test_{name}": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))  # the sort is stable
    for law in {item.function for item in items if hasattr(getattr(item, "obj", None), "hypothesis")}:
        _have_fewer_examples(law, is_a_gate=config.option.markexpr == "not thorough")
    for item in items:
        if is_thorough(item):
            item.add_marker("thorough")
        if is_of(STORMS, item):
            item.add_marker("storm")
        log = item.callspec.params.get("open_log") if hasattr(item, "callspec") else None
        if log not in {None, "sqlite"} or BROKERS & set(getattr(item, "fixturenames", ())):
            item.add_marker("broker")


def pytest_collection_finish():
    """What thousands of collected tests are made of is looked at no more: of a test that makes much it took half."""
    gc.collect()
    gc.freeze()


def _have_fewer_examples(law, *, is_a_gate):
    """Of a test that asks for a number of its own, too; hypothesis has no other way to say so.

    `make test-fast` tries ten, `make test` a third, or ten where that is less. Who runs a file, and `make storm`, tries all.
    """
    own = law._hypothesis_internal_use_settings
    asked = own.max_examples
    tried = min(asked, 10) if PROFILE == "fast" else max(min(asked, 10), asked // 3) if is_a_gate else asked
    law._hypothesis_internal_use_settings = settings(own, max_examples=tried)


@pytest.fixture(scope="session", autouse=True)
def _end_commands():
    import commands

    yield
    commands.close()


@pytest.fixture(scope="session")
def nursery():
    """Starts lives of learners: to import everything and have kernels ready takes seconds, once for all files."""
    from crashes.nursery import Nursery

    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="session", autouse=True)
def _collect_forgotten_sockets():
    """Those of kafka-python's connections that failed, while their warnings can still be let pass."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def streams():
    """The folder of real labelled streams; tests that need them are skipped where it is absent."""
    if not STREAMS.is_dir():
        pytest.skip(f"no labelled streams at {STREAMS} (set LABELLED_STREAMS)")
    return STREAMS


def pytest_generate_tests(metafunc):
    """`open_log` has a log of each kind, but where a test says which by itself; see `parameters`."""
    said = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "open_log" in metafunc.fixturenames and not any("open_log" in names for names in said):
        metafunc.parametrize("open_log", getattr(metafunc.module, "LOGS", LOGS), indirect=True)


def _create_each(log, topics):
    for name, partitions in topics.items():
        log.create_topic(name, partitions)


@pytest.fixture
def open_log(request, tmp_path):
    """Open the log of this test, once more each time; topics are made where they are given.

    `open_log.other()` is the same of another log: a law has one for each of its examples. What
    `open_log.hurried()` opens gives an election up after a second, as the commands do: it is for who stands by.
    """
    opened, files = [], count()

    def other():
        if request.param == "sqlite":
            from streamnb.event_logs.sqlite.sqlite_log import SqliteLog

            path = tmp_path / f"log{next(files) or ''}.db"
            connect = partial(SqliteLog, path, session_timeout=5.0)
            create, hurry = _create_each, {}
        else:
            from numbered import NUMBERS
            from prefixed import LIBRARIES, PrefixedKafkaLog

            address, prefix = request.getfixturevalue("broker").address, f"t{next(NUMBERS)}-"
            options = {"session_timeout": 6.0, "elected_within": 15.0, "library": LIBRARIES[request.param]}
            connect = partial(PrefixedKafkaLog, address, prefix, **options)
            create, hurry = PrefixedKafkaLog.create_topics, {"elected_within": 1.0}
        made = set()

        def opener(**topics):
            opened.append(connect())
            named = {name.replace("_", "-"): partitions for name, partitions in topics.items()}
            new = {name: partitions for name, partitions in named.items() if name not in made}
            if new:
                create(opened[-1], new)
            made.update(named)
            return opened[-1]

        def hurried():
            opened.append(connect(**hurry))
            return opened[-1]

        opener.other, opener.hurried = other, hurried
        return opener

    yield other()
    for log in opened:
        log.close()
