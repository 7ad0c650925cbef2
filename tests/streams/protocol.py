"""protocol.py: what the official suite does not look at: every rule of the protocol that a server can get wrong.

Goal    each test is one rule. Where the official reference server is at fault, or merely does otherwise, the test says so and must
        fail there (SC_STREAMS_REFERENCE=1; tests/interop/streams_reference.bats), so every such test has been seen to fail.
Method  one server for all tests, eight at a time, each with streams of its own; those that end or configure it have their own.
"""

import importlib

from world import suite

for name in ("paths", "create", "append", "read", "pages", "live", "forks", "expiry", "limits", "restart", "subscriptions"):
    importlib.import_module("t_" + name)

if __name__ == "__main__":
    suite.main()
