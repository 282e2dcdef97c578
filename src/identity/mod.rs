//! Access tokens: who calls (floor 4).
