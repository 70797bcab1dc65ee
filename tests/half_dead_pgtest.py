"""Connections that die without a word: streaming again within 30 s of the network's return, nothing lost (case B6)."""

import os
import time

import pytest

from support.netns import Netns
from support.outbox import Outbox
from support.postgres import Postgres
from support.wait import eventually

STREAMING_AGAIN_S = 30
SILENCE_S = 60 if os.environ.get("OUTBOX_RELAY_LONG_TESTS") else 25


@pytest.fixture(scope="module")
def net():
    with Netns() as net:
        yield net


@pytest.fixture(scope="module")
def far(net):
    with Postgres(15, netns=net) as pg:
        yield pg


def wait_streaming_again(outbox, relay, since):
    relay.wait_streaming(STREAMING_AGAIN_S)
    event = outbox.insert("after")
    outbox.wait_on_stdout(relay, event, deadline_s=STREAMING_AGAIN_S)
    took = time.monotonic() - since
    print(f"streaming again after {took:.1f} s")
    assert took < STREAMING_AGAIN_S
    outbox.wait_confirmed(relay)


def test_silence_is_noticed_and_after_it_a_restart_and_a_terminated_walsender_cost_nothing(net, far):
    outbox = Outbox(far, "half_dead")
    over_the_cable = {"source__host": far.host, "source__libpq": {"options": "-c wal_sender_timeout=6s"}}
    with outbox.relay(**over_the_cable) as relay:
        relay.wait_streaming()
        outbox.wait_on_stdout(relay, outbox.insert("before"))
        outbox.wait_confirmed(relay)

        began = time.monotonic()
        with net.silent():
            outbox.insert(*range(100))
            # The server is away, which is not idleness: the relay asks, and reconnects when no answer comes.
            relay.wait_for(lambda: relay.ready()[0] == 503, 15, "the relay is unready")
            print(f"unready {time.monotonic() - began:.1f} s into the silence")
            assert relay.metric("outbox_relay_source_connected") == 0
            assert relay.live()[0] == 200
            eventually(lambda: time.monotonic() - began > SILENCE_S, SILENCE_S + 1, "the silence has lasted")
        wait_streaming_again(outbox, relay, time.monotonic())

        far.stop("immediate")
        outbox_down = time.monotonic()
        far.start()
        wait_streaming_again(outbox, relay, outbox_down)

        far.sql("SELECT pg_terminate_backend(%s)", [far.walsender_pid(outbox.name)])
        wait_streaming_again(outbox, relay, time.monotonic())
        arrived = outbox.ids_on_stdout(relay)
        assert sorted(arrived) == sorted(outbox.ids()), "all of them, and once each by one process"


def test_a_server_that_is_refused_by_the_network_is_tried_again(net, far):
    """Every packet is answered by an RST, as by a firewall that rejects."""
    outbox = Outbox(far, "refused")
    with outbox.relay(source__host=far.host) as relay:
        relay.wait_streaming()
        with net.refused():
            relay.wait_for(lambda: outbox.insert("during") and relay.metric("outbox_relay_source_connected") == 0, 30,
                           "the connection has ended")
            relay.wait_for(lambda: relay.ready()[0] == 503, 10, "the relay is unready")
        wait_streaming_again(outbox, relay, time.monotonic())
        assert sorted(outbox.ids_on_stdout(relay)) == sorted(outbox.ids())
