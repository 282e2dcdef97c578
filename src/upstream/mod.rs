//! Calls to providers (floor 4): the one place where a secret is plain.
