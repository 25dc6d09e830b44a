-- compatible-from: 0020
-- Older code takes an encrypted secret for the secret itself: it must not run beside this.

-- Which keys secrets are encrypted under. An instance that cannot decrypt the test value of each of
-- them must not start: it would hold back what others can send.
create table encryption_keys (
    key_id       text primary key,
    -- A known text, encrypted under this key.
    test_value   text not null,
    created_at   timestamptz not null default now(),
    -- When every secret that was plain or under another key had been encrypted under this one.
    completed_at timestamptz
);
