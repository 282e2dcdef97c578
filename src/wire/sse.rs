//! Server-sent events from bytes.

/// Largest event taken when nothing else is set: 16 MiB.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 16 << 20;
