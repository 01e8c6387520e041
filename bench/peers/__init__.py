"""The other harnesses: one module each, with its command lines and the files it reads and writes."""

from bench.peers import helm, inspect, lm_eval

PEERS = {peer.name: peer for peer in (lm_eval.PEER, inspect.PEER, helm.PEER)}
"""Name -> peer, in the order of the table."""
