//! Sealing of secrets (floor 2).
