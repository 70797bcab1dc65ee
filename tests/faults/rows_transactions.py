"""Row 69: Kafka transactions whose commit is not answered."""

from faults.kafka_clusters import one, proxy_of, through
from faults.kafka_proxy import END_TXN, RESET, SWALLOW
from faults.kafka_states import stop_whole, wait_progress
from faults.scenario import EXACTLY_ONCE, scenario
from support.relay import run_command
from support.steadfast_writer import SteadfastWriter


@scenario(row=69, mode=EXACTLY_ONCE, title="the answer to a commit lost, or cut off: nothing torn, nothing twice")
def commit_unanswered(world):
    kafka = one(world)
    proxy = proxy_of(world, kafka)
    outbox = through(world.outbox(kafka=kafka, mode=EXACTLY_ONCE), "PROXIED")
    code, _, stderr = run_command(["init"], outbox.config)
    assert code == 0, stderr
    with outbox.relay(sink__kafka__properties={"socket.timeout.ms": 1000}) as relay:
        with SteadfastWriter(outbox, world.seed) as writer:
            for verdict in (SWALLOW, RESET) * world.cycles:
                wait_progress(relay, 30)
                proxy.damage_next(END_TXN, lambda _, verdict=verdict: verdict)
            wait_progress(relay, 30, deadline_s=120)
        return stop_whole(outbox, relay, writer, duplicates=0, deadline_s=120)
