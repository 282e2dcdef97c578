//! Metrics, traces, logs (floor 2).
