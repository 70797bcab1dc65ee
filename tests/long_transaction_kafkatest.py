"""A transaction far longer than wal_sender_timeout at a slow broker: status goes out in the middle of it (B8)."""

import os

from support.outbox import Outbox, event_id

ROWS = 2_000_000 if os.environ.get("OUTBOX_RELAY_LONG_TESTS") else 300_000


def test_status_goes_out_in_the_middle_of_a_long_transaction(postgres, kafka):
    outbox = Outbox(postgres, "long_transaction", kafka, partitions=3)
    # A broker that takes some twenty thousand a second at most: a thousand records, each batch held back for 50 ms.
    slow = {"queue.buffering.max.messages": 1000, "linger.ms": 50, "batch.num.messages": 10000}
    with outbox.relay(sink__kafka__properties=slow, source__libpq={"options": "-c wal_sender_timeout=5s"}) as relay:
        relay.wait_streaming()
        outbox.insert("before")
        outbox.wait_confirmed(relay)
        walsender = postgres.walsender_pid(outbox.name)
        outbox.sql("INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload) SELECT 'order', n %% 100,"
                   " 'OrderPlaced', '{}' FROM generate_series(1, %s) n", [ROWS])
        end = outbox.written()

        def inserts():
            return relay.metric("outbox_relay_source_messages_total", type="insert")

        relay.wait_for(lambda: inserts() > 1000, 30, "it is being sent")
        sent, first = relay.metric("outbox_relay_confirmations_total"), inserts()
        heard = "SELECT extract(epoch FROM now() - reply_time) FROM pg_stat_replication WHERE pid = %s"
        oldest = 0
        while inserts() < ROWS * 0.9:
            oldest = max(oldest, postgres.value(heard, [walsender]) or 0)
            assert outbox.confirmed() < end
        assert relay.metric("outbox_relay_confirmations_total") - sent >= 3, f"from insert {first} on"
        print(f"the server's last status update was at most {oldest:.1f} s old")
        assert oldest < 5
        outbox.wait_confirmed(relay, deadline_s=ROWS / 2000)
        assert postgres.walsender_pid(outbox.name) == walsender
        assert relay.metric("outbox_relay_source_reconnects_total") == 0
    assert len({event_id(record) for record in outbox.in_kafka(deadline_s=ROWS / 2000)}) == ROWS + 1
