//! The immutable snapshot of providers, keys, models and routes for the hot path (floor 4).
