"""Evaluations over several processes and machines: gateways, shards, pools of servers, and Ray clusters."""
