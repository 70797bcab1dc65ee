"""What the Python tests and the quick start share: real servers, the relay process, waiting."""
