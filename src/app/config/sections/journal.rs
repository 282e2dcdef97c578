//! `[journal]`: what is not yet in the store.

use std::{path::PathBuf, time::Duration};

use crate::app::config::{ByteSize, section::section};

section! {
    /// The local file that holds requests until the store has them. It must outlive the process: in a
    /// container, a volume of its own for each replica.
    "journal" JournalSection {
        /// Where it is kept; none: `journal` in `data.dir`.
        dir: Option<PathBuf> = "";
        /// Size of one segment file; drained segments are removed whole.
        segment: ByteSize = "16MiB";
        /// The journal never grows larger; at this size requests are refused with 503. Room for at least eight
        /// segments.
        max_bytes: ByteSize = "4GiB";
        /// Written records are forced to disk at least this often; a power cut loses no more than that.
        fsync: Duration = "10ms";
    }
    |journal, check| {
        check.that(journal.segment.0 >= 64 << 10, "segment", "expected at least 64KiB");
        check.that(
            journal.max_bytes.0 / 8 >= journal.segment.0,
            "max_bytes",
            "expected room for at least eight segments",
        );
        check.that(
            journal.fsync >= Duration::from_millis(1) && journal.fsync <= Duration::from_secs(1),
            "fsync",
            "expected 1ms to 1s",
        );
    }
}
