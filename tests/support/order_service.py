"""A service as the quick start plays it: it commits an order and its event in one transaction."""

import json

CREATE_ORDERS = """
CREATE TABLE orders (
  id       bigint PRIMARY KEY,
  customer text NOT NULL,
  cents    bigint NOT NULL
)"""


def place_order(connection, order_id, customer, cents, card_accepted=True):
    """True when the order stands. Otherwise neither its row nor its event was ever there."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s, %s, %s)", [order_id, customer, cents])
        cursor.execute(
            "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)"
            " VALUES ('order', %s, 'OrderPlaced', %s)",
            [str(order_id), json.dumps({"order": order_id, "customer": customer, "cents": cents})])
    if card_accepted:
        connection.commit()
    else:
        connection.rollback()
    return card_accepted
