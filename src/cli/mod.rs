//! Commands (floor 6): one file a command.
