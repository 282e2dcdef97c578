//! A process killed while it writes its journal: nothing that it was told is written is lost.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use tollway::domain::event::Outcome;

use crate::billing::{attempt, attempt_start, begin, by_id, ends, event, open, request, small};

const DIR: &str = "TOLLWAY_TEST_JOURNAL_DIR";

/// Not a test: what the child of the test below does. It writes until it is killed and says on
/// stdout what was acknowledged to it.
#[test]
#[ignore = "run by the_killed_process_loses_nothing_that_was_acknowledged as its child"]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let first = std::env::var("TOLLWAY_TEST_FIRST").unwrap().parse::<u64>().unwrap();
    let (journal, _) = open(small(dir.as_ref()));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let journal = journal.clone();
            scope.spawn(move || {
                for n in (first + thread..).step_by(4) {
                    journal.begin(&begin(n), &attempt_start(0)).unwrap();
                    say(&format!("begin {n}\n"));
                    if n.is_multiple_of(5) {
                        journal.attempt(request(n), &attempt_start(1), &attempt(0, None)).unwrap();
                    }
                    if n % 7 != 0 {
                        journal.end(&event(n, 1 + u64::from(n.is_multiple_of(5)))).unwrap();
                        say(&format!("end {n}\n"));
                    }
                }
            });
        }
    });
}

/// One write each, so that no half line is ever seen.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

#[test]
fn the_killed_process_loses_nothing_that_was_acknowledged() {
    const ROUNDS: u64 = 12;
    let dir = tempfile::tempdir().unwrap();
    let (mut begun, mut ended) = (HashSet::new(), HashSet::new());
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::journal::child", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .env("TOLLWAY_TEST_FIRST", (round * 1_000_000).to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let enough = 50 + 173 * round;
        let mut said = 0;
        let mut is_killed = false;
        // After the kill the pipe still holds what was said before it.
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            match line.split_once(' ') {
                Some(("begin", n)) => begun.insert(n.parse::<u64>().unwrap()),
                Some(("end", n)) => ended.insert(n.parse::<u64>().unwrap()),
                _ => continue,
            };
            said += 1;
            if said >= enough && !is_killed {
                child.kill().unwrap();
                is_killed = true;
            }
        }
        child.wait().unwrap();
        assert!(is_killed, "the child ended by itself after {said} lines");
    }

    let (journal, _) = open(small(dir.path()));
    let all = by_id(ends(&journal));
    for n in &ended {
        assert_eq!(all.get(&request(*n)), Some(&event(*n, 1 + u64::from(n.is_multiple_of(5)))), "end {n}");
    }
    for n in begun.difference(&ended) {
        let found = all.get(&request(*n)).unwrap_or_else(|| panic!("begin {n} is lost"));
        // Its end may have been written without anybody having been told.
        assert!(found.outcome == Outcome::Interrupted || n % 7 != 0, "{found:?}");
    }
    assert!(begun.len() > 1_000, "{} begins", begun.len());
}
