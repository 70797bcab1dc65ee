"""Prints the records of topics, and goes on doing so until Ctrl-C.

    cd tests && /usr/bin/python3 -m support.show_records BROKERS TOPIC-OR-^PATTERN
"""

import sys

from .kafka_reader import KafkaReader


def show(record):
    """One record as a line for people."""
    headers = " ".join(f"{name}={text(value)}" for name, value in record.headers)
    return (f"{record.topic}[{record.partition}]@{record.offset}  key={text(record.key)}  {headers}\n"
            f"    {text(record.value)}")


def text(value):
    return "NULL" if value is None else value.decode(errors="replace")


def main(brokers, topics):
    with KafkaReader(brokers, topics) as reader:
        while True:
            for record in reader.read_more(0.3):
                print(show(record), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(sys.argv[1], sys.argv[2])
    except KeyboardInterrupt:
        pass
