"""Breaks a running instance on purpose, under load, and reports what it kept.

scenario (what a caller does) → load (does it until answered) → ack_log (what was acknowledged)
fault (what is broken meanwhile)                                   ↓
receiver (what streams showed), database_audit (what is stored) → reconcile (do they agree?)

Scenarios, acks and reconciliation are pure. `exercise.py` puts load, receiver and reconciliation
together for any instance that has an address, a key and a database; the faults need a local one.
"""
