"""Breaks a running instance on purpose, under load, and prints the account.

story (what a caller will do) → load (does it, and insists) → ledger (what was acknowledged)
fault (what is broken meanwhile)                                    ↓
receiver (what a reader was told) and Postgres (what was kept)  →  account (do they agree?)

Story, ledger lines and account are pure. `exercise.py` puts load, receiver and account together
for any instance that has an address, a key and a database; the faults need a local one.
"""
