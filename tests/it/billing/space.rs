//! When space runs out, begins are refused and every end still fits.

use std::{path::Path, process::Command, time::Duration};

use tollway::{
    billing::journal::{Journal, JournalConfig, JournalError, MAX_NAME_BYTES, Position, Reader},
    domain::clock::Timestamp,
};

use super::{attempt, attempt_start, begin, by_id, ends, event, open, request, small};

/// Begins until the journal is full; gives how many went in.
fn fill(journal: &Journal) -> u64 {
    for n in 0.. {
        match journal.begin(&begin(n), &attempt_start(0)) {
            Ok(_) => {}
            Err(JournalError::Full) => return n,
            Err(other) => panic!("{other:?}"),
        }
    }
    unreachable!("the journal never fills")
}

/// Everything that begins is refused, and everything that began ends.
fn is_full_and_all_end(journal: &Journal, begun: u64) {
    assert!(journal.health().disk_full);
    let more = |n| journal.attempt(request(n), &attempt_start(1), &attempt(0, None));
    assert!((0..begun).any(|n| matches!(more(n), Err(JournalError::Full))), "attempts find room for ever");
    for n in 0..begun {
        let mut end = event(n, 1);
        // As long as an end can get within what was said at its begin.
        end.usage.input_tokens = u64::MAX;
        end.usage.output_tokens = u64::MAX;
        journal.end(&end).unwrap_or_else(|error| panic!("end {n} of {begun}: {error:?}"));
    }
    assert_eq!(by_id(ends(journal)).len() as u64, begun);
}

/// Once the store has everything, there is room again.
fn drained_it_takes_requests_again(journal: &Journal) {
    let mut reader = Reader::starting_at(journal.clone(), Position::default()).unwrap();
    let stored = reader.read(usize::MAX).unwrap().to;
    reader.release(stored, Timestamp::from_unix_us(i64::MAX)).unwrap();
    let mut tries = 0;
    while let Err(error) = journal.begin(&begin(1_000_000), &attempt_start(0)) {
        assert!(matches!(error, JournalError::Full));
        tries += 1;
        assert!(tries < 200, "still full");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn at_the_bound_begins_are_refused_and_every_end_fits() {
    let dir = tempfile::tempdir().unwrap();
    let config = JournalConfig { max_bytes: 8 * (64 << 10), ..small(dir.path()) };
    let (journal, _) = open(config.clone());
    let begun = fill(&journal);
    assert!(begun > 60, "{begun}");
    is_full_and_all_end(&journal, begun);
    assert!(journal.health().total_bytes <= config.max_bytes);
    drained_it_takes_requests_again(&journal);
}

#[test]
fn killed_at_the_bound_it_still_settles_everything() {
    let dir = tempfile::tempdir().unwrap();
    let config = JournalConfig { max_bytes: 8 * (64 << 10), ..small(dir.path()) };
    let (journal, _) = open(config.clone());
    let begun = fill(&journal);
    drop(journal);
    let (journal, recovered) = open(config);
    assert_eq!(recovered.interrupted.len() as u64, begun);
    assert_eq!(by_id(ends(&journal)).len() as u64, begun);
}

#[test]
fn a_request_has_no_more_attempts_than_room_was_planned_for() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    journal.begin(&begin(1), &attempt_start(0)).unwrap();
    for n in 1..12 {
        journal.attempt(request(1), &attempt_start(n), &attempt(n - 1, None)).unwrap();
    }
    let thirteenth = journal.attempt(request(1), &attempt_start(12), &attempt(11, None));
    assert!(matches!(thirteenth, Err(JournalError::TooLarge)), "{thirteenth:?}");
    journal.end(&event(1, 12)).unwrap();
}

#[test]
fn a_name_longer_than_planned_is_refused_at_the_door() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let mut long = begin(1);
    long.model = "m".repeat(MAX_NAME_BYTES + 1);
    let refused = journal.begin(&long, &attempt_start(0));
    assert!(matches!(refused, Err(JournalError::TooLarge)), "{refused:?}");
    assert_eq!(journal.health().open_requests, 0);
}

/// A small file system of its own, for as long as it lives.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where this process may not mount.
    fn mount(size: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tollway-test"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then(|| Self(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn on_a_full_disk_begins_are_refused_and_every_end_fits() {
    let Some(disk) = SmallDisk::mount("1m") else {
        eprintln!("skipped: this needs the right to mount; the bound is tested without");
        return;
    };
    let (journal, _) = open(JournalConfig { max_bytes: 1 << 30, ..small(disk.path()) });
    let begun = fill(&journal);
    assert!(begun > 100, "{begun}");
    is_full_and_all_end(&journal, begun);
    drained_it_takes_requests_again(&journal);
}
