//! The HTTP surfaces (floor 6), the only floor that knows actix.
