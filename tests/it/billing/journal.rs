//! A journal that is closed, cut, damaged and opened again tells what was written and nothing else.

use std::{collections::BTreeMap, fs, path::Path};

use proptest::prelude::*;
use tollway::{
    billing::journal::{Journal, JournalError, Position, Reader},
    domain::{
        clock::{SystemClock, Timestamp},
        event::Outcome,
        ids::RequestId,
        money::Nanos,
        usage::UsageSource,
    },
};

use super::{
    CountingEntropy, attempt, attempt_start, begin, by_id, ends, event, open, request, small, tenant, usage,
};

#[test]
fn what_ended_is_there_again_and_what_did_not_is_interrupted() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, recovered) = open(small(dir.path()));
    assert!(recovered.interrupted.is_empty() && recovered.holds.is_empty());
    let replica = journal.replica();
    for n in 1..=3 {
        journal.begin(&begin(n), &attempt_start(0)).unwrap();
    }
    journal.end(&event(1, 1)).unwrap();
    journal.attempt(request(2), &attempt_start(1), &attempt(0, None)).unwrap();
    journal.progress(request(2), &usage(50), begin(2).started_at).unwrap();
    assert_eq!(journal.health().open_requests, 2);
    drop(journal);

    let (journal, recovered) = open(small(dir.path()));
    assert_eq!(journal.replica(), replica, "the id of a replica outlives it");
    let by_request: Vec<_> = recovered.holds.iter().map(|h| (h.request, h.tenant, h.hold)).collect();
    let hold = Nanos::new(1_000);
    assert_eq!(by_request, [(request(2), tenant(2), hold), (request(3), tenant(3), hold)]);
    let [metered, silent] = recovered.interrupted.as_slice() else { panic!("{recovered:?}") };
    assert_eq!((metered.outcome, metered.replica_id), (Outcome::Interrupted, replica));
    assert_eq!((metered.charge, metered.cost), (Nanos::new(100), Nanos::new(50)));
    assert_eq!((metered.usage.source, metered.attempts.len()), (UsageSource::Estimated, 2));
    assert_eq!((silent.charge, silent.usage.source), (Nanos::ZERO, UsageSource::None));
    assert_eq!(silent.attempts[0].key_id, attempt_start(0).key_id);

    let all = by_id(ends(&journal));
    assert_eq!(all.len(), 3);
    assert_eq!(all[&request(1)], event(1, 1));
    assert_eq!(journal.health().undrained_records, 3);
    assert_eq!(journal.health().open_requests, 0);
    drop(journal);

    let (journal, recovered) = open(small(dir.path()));
    assert!(recovered.interrupted.is_empty(), "settled once");
    assert_eq!(by_id(ends(&journal)), all);
}

#[test]
fn attempts_of_the_last_minute_are_told_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let mut fresh = event(2, 2);
    fresh.started_at = tollway::domain::clock::Clock::now(&SystemClock);
    for (n, event) in [(1, &event(1, 1)), (2, &fresh)] {
        journal.begin(&begin(n), &attempt_start(0)).unwrap();
        journal.end(event).unwrap();
    }
    drop(journal);
    let (_, recovered) = open(small(dir.path()));
    let recent = recovered.recent;
    assert_eq!(recent.len(), 2);
    assert_eq!((recent[0].tokens, recent[0].is_last), (0, false));
    assert_eq!((recent[1].tokens, recent[1].is_last), (fresh.usage.total_tokens(), true));
}

#[test]
fn a_directory_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let second = Journal::open(small(dir.path()), &SystemClock, &CountingEntropy::default());
    assert!(matches!(second, Err(JournalError::Locked { .. })), "{second:?}");
    drop(journal);
    open(small(dir.path()));
}

#[test]
fn a_replica_id_that_is_none_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("replica"), "ten_0192").unwrap();
    let opened = Journal::open(small(dir.path()), &SystemClock, &CountingEntropy::default());
    assert!(matches!(opened, Err(JournalError::BadFile { .. })), "{opened:?}");
}

#[test]
fn damage_in_the_middle_is_reported_and_costs_no_other_record() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let mut ends_at = Vec::new();
    for n in 0..10 {
        journal.begin(&begin(n), &attempt_start(0)).unwrap();
        journal.end(&event(n, 1)).unwrap();
        ends_at.push(written(dir.path()));
    }
    drop(journal);
    let path = first_segment(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[ends_at[4] - 100] ^= 1;
    fs::write(&path, bytes).unwrap();

    let (journal, recovered) = open(small(dir.path()));
    assert!(recovered.damaged_bytes > 0 && recovered.damaged_bytes < 1_100, "{recovered:?}");
    let interrupted: Vec<_> = recovered.interrupted.iter().map(|event| event.id).collect();
    assert_eq!(interrupted, [request(4)], "its begin was not damaged");
    assert_eq!(by_id(ends(&journal)).len(), 10);
}

#[test]
fn a_begin_that_cannot_be_read_counts_as_damage_while_its_request_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    for n in 1..=3 {
        journal.begin(&begin(n), &attempt_start(0)).unwrap();
    }
    journal.end(&event(2, 1)).unwrap();
    journal.attempt(request(3), &attempt_start(1), &attempt(0, None)).unwrap();
    drop(journal);
    let begin_bytes = spoil_begins(dir.path());

    let (journal, recovered) = open(small(dir.path()));
    assert_eq!(recovered.interrupted, []);
    assert_eq!(recovered.damaged_bytes, 2 * begin_bytes, "nothing is lost of a request that has ended");
    assert_eq!(ends(&journal), [event(2, 1)]);
}

#[test]
fn a_begin_that_cannot_be_read_holds_no_segment() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    journal.begin(&begin(1_000), &attempt_start(0)).unwrap();
    drop(journal);
    let begin_bytes = spoil_begins(dir.path());

    let (journal, _) = open(small(dir.path()));
    let write = |from: u64| {
        for n in from..from + 200 {
            journal.begin(&begin(n), &attempt_start(0)).unwrap();
            journal.end(&event(n, 1)).unwrap();
        }
    };
    write(0);
    let mut reader = Reader::starting_at(journal.clone(), Position::default()).unwrap();
    let first = reader.read(usize::MAX).unwrap();
    assert_eq!((first.events.len(), first.damaged_bytes), (200, 0), "nobody asked for it yet");
    reader.release(first.to, Timestamp::from_unix_us(i64::MAX)).unwrap();
    assert!(!first_segment(dir.path()).exists());
    write(200);
    assert_eq!(reader.read(usize::MAX).unwrap().damaged_bytes, begin_bytes);
    write(400);
    assert_eq!(reader.read(usize::MAX).unwrap().damaged_bytes, 0, "told once");
}

/// Makes the begins in the first segment, which are of one length, such as no version wrote. Gives
/// the bytes of one.
fn spoil_begins(dir: &Path) -> u64 {
    const HEADER_BYTES: usize = 36;
    const BEGIN: u8 = 1;
    let mut bytes = fs::read(first_segment(dir)).unwrap();
    let (mut rest, mut begin_bytes) = (bytes.as_mut_slice(), 0);
    while rest.starts_with(&[0xF7, b'J']) {
        let payload_bytes = u32::from_le_bytes(rest[4..8].try_into().unwrap());
        let (frame, behind) = rest.split_at_mut(HEADER_BYTES + payload_bytes as usize);
        if frame[3] == BEGIN {
            frame[HEADER_BYTES..].fill(0xC1);
            let mut checksum = crc32fast::Hasher::new();
            checksum.update(&frame[2..8]);
            checksum.update(&frame[12..]);
            frame[8..12].copy_from_slice(&checksum.finalize().to_le_bytes());
            begin_bytes = frame.len() as u64;
        }
        rest = behind;
    }
    fs::write(first_segment(dir), bytes).unwrap();
    begin_bytes
}

#[test]
fn eight_threads_lose_nothing_while_a_reader_follows_and_segments_go() {
    const THREADS: u64 = 8;
    const EACH: u64 = 600;
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    let long_lived = THREADS * EACH + 1;
    journal.begin(&begin(long_lived), &attempt_start(0)).unwrap();
    journal.attempt(request(long_lived), &attempt_start(1), &attempt(0, None)).unwrap();
    journal.progress(request(long_lived), &usage(77), begin(0).started_at).unwrap();

    let mut reader = Reader::starting_at(journal.clone(), Position::default()).unwrap();
    let mut read = Vec::new();
    let mut most_segments = 0;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let journal = journal.clone();
                scope.spawn(move || {
                    for n in thread * EACH..(thread + 1) * EACH {
                        journal.begin(&begin(n), &attempt_start(0)).unwrap();
                        if n.is_multiple_of(3) {
                            journal.attempt(request(n), &attempt_start(1), &attempt(0, None)).unwrap();
                        }
                        journal.end(&event(n, 1 + u64::from(n.is_multiple_of(3)))).unwrap();
                    }
                })
            })
            .collect();
        loop {
            let is_last = writers.iter().all(std::thread::ScopedJoinHandle::is_finished);
            let chunk = reader.read(100).unwrap();
            let got = chunk.events.len();
            assert_eq!(chunk.damaged_bytes, 0);
            let _ = journal.health();
            read.extend(chunk.events);
            reader.release(chunk.to, Timestamp::from_unix_us(i64::MAX)).unwrap();
            most_segments = most_segments.max(segments(dir.path()));
            if is_last && got == 0 {
                break;
            }
        }
    });
    let all = by_id(read);
    assert_eq!(all.len() as u64, THREADS * EACH);
    assert!((0..THREADS * EACH).all(|n| all[&request(n)] == event(n, 1 + u64::from(n.is_multiple_of(3)))));
    assert!(segments(dir.path()) <= 5, "{} segments left, {most_segments} at most", segments(dir.path()));
    drop((reader, journal));

    let (_, recovered) = open(small(dir.path()));
    let [carried] = recovered.interrupted.as_slice() else { panic!("{recovered:?}") };
    assert_eq!((carried.id, carried.attempts.len()), (request(long_lived), 2));
    assert_eq!(carried.usage.input_tokens, 77, "its progress went with it");
}

#[test]
fn a_segment_stays_while_its_last_minute_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = open(small(dir.path()));
    for n in 0..200 {
        journal.begin(&begin(n), &attempt_start(0)).unwrap();
        journal.end(&event(n, 1)).unwrap();
    }
    let mut reader = Reader::starting_at(journal, Position::default()).unwrap();
    let stored = reader.read(usize::MAX).unwrap().to;
    let before = segments(dir.path());
    let last = event(0, 1).started_at.plus(std::time::Duration::from_millis(20));
    reader.release(stored, last.minus(std::time::Duration::from_millis(1))).unwrap();
    assert_eq!(segments(dir.path()), before);
    reader.release(stored, last).unwrap();
    assert!(segments(dir.path()) < before);
}

/// One call of a writer.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin,
    Attempt,
    Progress(u64),
    End,
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let step = prop_oneof![
        3 => Just(Step::Begin),
        2 => Just(Step::Attempt),
        1 => (0u64..1_000).prop_map(Step::Progress),
        3 => Just(Step::End),
    ];
    prop::collection::vec((0u64..6, step), 1..60)
}

/// What a journal should tell: for each request how many attempts it had and its progress, open or
/// ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Told {
    open: BTreeMap<RequestId, (u64, Option<u64>)>,
    ended: BTreeMap<RequestId, u64>,
}

/// Takes those steps that make sense. After each: bytes written and what should be told.
fn write_all(dir: &Path, steps: &[(u64, Step)]) -> Vec<(usize, Told)> {
    let (journal, _) = open(small(dir));
    let mut told = Told::default();
    let mut after = vec![(0, told.clone())];
    let mut generation = [0u64; 6];
    for &(slot, step) in steps {
        let n = slot + 10 * generation[usize::try_from(slot).unwrap()];
        let id = request(n);
        match (step, told.open.get_mut(&id)) {
            (Step::Begin, None) => {
                journal.begin(&begin(n), &attempt_start(0)).unwrap();
                told.open.insert(id, (1, None));
            }
            (Step::Attempt, Some((attempts, _))) if *attempts < 12 => {
                journal.attempt(id, &attempt_start(*attempts), &attempt(*attempts - 1, None)).unwrap();
                *attempts += 1;
            }
            (Step::Progress(tokens), Some((_, progress))) => {
                journal.progress(id, &usage(tokens), begin(n).started_at).unwrap();
                *progress = Some(tokens);
            }
            (Step::End, Some((attempts, _))) => {
                journal.end(&event(n, *attempts)).unwrap();
                told.ended.insert(id, *attempts);
                told.open.remove(&id);
                generation[usize::try_from(slot).unwrap()] += 1;
            }
            _ => continue,
        }
        after.push((written(dir), told.clone()));
    }
    after
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_journal_cut_at_any_byte_tells_what_was_wholly_written(
        steps in steps(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 4),
        truncated in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let after = write_all(dir.path(), &steps);
        let bytes = fs::read(first_segment(dir.path())).unwrap();
        let used = after.last().unwrap().0;
        for cut in cuts.iter().map(|cut| cut.index(used + 1)) {
            let copy = tempfile::tempdir().unwrap();
            fs::copy(dir.path().join("replica"), copy.path().join("replica")).unwrap();
            let mut kept = bytes[..cut].to_vec();
            if !truncated {
                kept.resize(bytes.len(), 0);
            }
            fs::write(first_segment(copy.path()), &kept).unwrap();
            let expected = &after.iter().rev().find(|(end, _)| *end <= cut).unwrap().1;

            let (journal, recovered) = open(small(copy.path()));
            prop_assert_eq!(recovered.damaged_bytes, 0);
            let mut told = Told::default();
            for event in &recovered.interrupted {
                let metered = (event.usage.source != UsageSource::None).then_some(event.usage.input_tokens);
                told.open.insert(event.id, (event.attempts.len() as u64, metered));
            }
            let all = by_id(ends(&journal));
            for event in all.values().filter(|event| event.outcome != Outcome::Interrupted) {
                told.ended.insert(event.id, event.attempts.len() as u64);
            }
            prop_assert_eq!(&told, expected, "cut at {}", cut);
            prop_assert_eq!(all.len(), told.open.len() + told.ended.len());
            drop(journal);

            let (journal, again) = open(small(copy.path()));
            prop_assert!(again.interrupted.is_empty() && again.damaged_bytes == 0);
            prop_assert_eq!(by_id(ends(&journal)), all);
        }
    }
}

fn first_segment(dir: &Path) -> std::path::PathBuf {
    dir.join("segment-000000000001.journal")
}

/// Bytes of the first segment that are not the zeros it was made of; no record ends in a zero.
fn written(dir: &Path) -> usize {
    let bytes = fs::read(first_segment(dir)).unwrap();
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

fn segments(dir: &Path) -> usize {
    let is_segment = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("segment-");
    fs::read_dir(dir).unwrap().filter(|entry| is_segment(&entry.as_ref().unwrap().file_name())).count()
}
