"""A checkpoint beside the slot, at least once: no repeats where PostgreSQL forgot, and gaps are noticed across restarts."""

import pytest

from support.outbox import Outbox
from support.postgres import Postgres
from support.relay import run_command


def checkpointed(server, kafka, name, topic=None):
    outbox = Outbox(server, name, kafka)
    outbox.config["delivery"] = {"checkpoint": {"topic": topic or f"{name}.checkpoint"}}
    return outbox


def init(outbox, *options):
    code, _, stderr = run_command(["init", *options], outbox.config)
    assert code == 0, stderr


@pytest.mark.parametrize("version, mode", [(15, "fast"), (15, "immediate"), (18, "immediate")])
def test_a_restart_of_both_sides_repeats_nothing(kafka, version, mode):
    """PostgreSQL forgets what was confirmed; without a checkpoint these events come again."""
    with Postgres(version) as server:
        outbox = checkpointed(server, kafka, f"both_{version}_{mode}")
        init(outbox)
        with outbox.relay() as relay:
            relay.wait_streaming()
            events = [outbox.insert(number)[0] for number in range(20)]
            outbox.wait_confirmed(relay)
            assert relay.terminate() == 0
            server.restart(mode)
            relay.start().wait_streaming()
            events += outbox.insert("after")
            outbox.wait_confirmed(relay)
            assert relay.terminate() == 0
        assert outbox.ids_in_kafka() == events


def test_a_slot_that_was_advanced_while_the_relay_was_down_is_a_gap(postgres, kafka):
    """Case A14, rows 36 and 37 across a restart."""
    outbox = checkpointed(postgres, kafka, "advanced")
    init(outbox)
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert("a")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
        outbox.insert("skipped")
        outbox.sql("SELECT pg_replication_slot_advance('advanced', pg_current_wal_lsn())")
        relay.start()
        assert relay.wait_exit() == 65
        assert "was advanced from" in relay.stderr() and "by someone else" in relay.stderr()


def test_a_slot_that_was_made_anew_is_a_gap(postgres, kafka):
    outbox = checkpointed(postgres, kafka, "made_anew")
    init(outbox)
    with outbox.relay() as relay:
        relay.wait_streaming()
        outbox.insert("a")
        outbox.wait_confirmed(relay)
        assert relay.terminate() == 0
        outbox.sql("SELECT pg_drop_replication_slot('made_anew')")
        outbox.insert("skipped")
        outbox.create_slot()
        relay.start()
        assert relay.wait_exit() == 65
        assert "was advanced from" in relay.stderr()


def test_a_server_restored_from_an_older_copy_is_refused_until_the_checkpoint_is_begun_anew(kafka):
    with Postgres(15) as server:
        outbox = checkpointed(server, kafka, "restored_cp")
        init(outbox)
        server.stop()
        copy = server.copy_data()
        server.start()
        with outbox.relay() as relay:
            relay.wait_streaming()
            outbox.insert(*range(100), payload='{"filler": "%s"}' % ("x" * 1000))
            outbox.wait_confirmed(relay)
            assert relay.terminate() == 0
            server.stop()
            server.restore(copy)
            server.start()
            relay.start()
            assert relay.wait_exit() == 65
            assert "restored from a copy" in relay.stderr() and "--reset-checkpoint" in relay.stderr()
            init(outbox, "--reset-checkpoint")
            relay.start().wait_streaming()
            after = outbox.insert("after")
            outbox.wait_confirmed(relay)
            assert relay.terminate() == 0
        assert outbox.ids_in_kafka()[-1:] == after


def test_a_topic_that_could_lose_the_checkpoint_is_refused(postgres, kafka):
    outbox = checkpointed(postgres, kafka, "deleted_policy")
    kafka.create_topic("deleted_policy.checkpoint", config={"cleanup.policy": "delete"})
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 78 and "cleanup.policy=delete" in stderr and "kafka-configs.sh" in stderr
    with outbox.relay() as relay:
        assert relay.wait_exit() == 78
        assert "cleanup.policy=delete" in relay.stderr()


def test_a_topic_of_another_slot_is_refused(postgres, kafka):
    first, second = checkpointed(postgres, kafka, "owner"), checkpointed(postgres, kafka, "guest", "owner.checkpoint")
    init(first)
    code, _, stderr = run_command(["init"], second.config)
    assert code == 78 and "each slot needs a topic of its own" in stderr


def test_a_missing_topic_and_a_missing_checkpoint_say_what_to_type(postgres, kafka):
    outbox = checkpointed(postgres, kafka, "no_checkpoint")
    with outbox.relay() as relay:
        assert relay.wait_exit() == 78
        assert "does not exist. Run outbox-relay init" in relay.stderr()
    kafka.create_topic("no_checkpoint.checkpoint", config={"cleanup.policy": "compact"})
    with outbox.relay() as relay:
        assert relay.wait_exit() == 78
        assert "holds no checkpoint" in relay.stderr()
    init(outbox)
    with outbox.relay() as relay:
        relay.wait_streaming()
