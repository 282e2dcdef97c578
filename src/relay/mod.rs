//! The request path (floor 5), told top to bottom.
