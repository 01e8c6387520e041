"""HTTP: one client, the egress policy, and what reaches messages and the audit log."""
