//! The demo as a newcomer runs it: the binary, in an empty directory, and nothing else.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::server::binary;

fn demo(directory: &std::path::Path) -> Command {
    let mut demo = Command::new(binary());
    demo.arg("demo").env_clear().env("TMPDIR", directory).current_dir(directory);
    demo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    demo
}

fn is_empty(directory: &std::path::Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn one_request_is_streamed_fails_over_is_billed_and_nothing_is_left_behind() {
    let directory = tempfile::tempdir().unwrap();
    let output = demo(directory.path()).arg("--once").output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{out}\n{err}");
    assert_eq!(err, "", "a demo that goes well logs nothing");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "no model is behind it, its prices are made up.",
        "create key sandbox/over-its-limit",
        "answer This is the sandbox speaking, no model is behind it.",
        "picked a key, and passed this on as it came.",
        "attempt 1 key over-its-limit: 429, rate_limited → next key,",
        "attempt 2 key works: 200, served,",
        "usage 11 tokens in, 32 tokens out, counted by: upstream",
        // 11 × 3.00 + 32 × 15.00 and 11 × 2.00 + 32 × 10.00 per million.
        "cost demo-team pays 0.000513, the provider takes 0.000342",
        "charge -0.000513 balance -0.000513",
    ] {
        assert!(words.contains(part), "no «{part}» in:\n{out}");
    }
    assert!(is_empty(directory.path()), "the demo leaves files behind");
}

#[test]
fn it_stays_up_for_more_until_it_is_asked_to_stop() {
    use std::io::{BufRead, BufReader};

    let directory = tempfile::tempdir().unwrap();
    let mut child = demo(directory.path()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let curl: Vec<String> = lines
        .by_ref()
        .skip_while(|line| !line.contains("curl"))
        .take_while(|line| !line.is_empty())
        .collect();
    assert!(lines.by_ref().any(|line| line.contains("until Ctrl-C")));
    // The line that it prints, as a shell reads it.
    let output = Command::new("sh").arg("-c").arg(curl.join("\n")).output().unwrap();
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(answer.contains("data: {") && answer.contains("data: [DONE]"), "{curl:?} answers {answer}");

    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(is_empty(directory.path()), "the demo leaves files behind");
}

#[test]
fn it_cleans_up_when_its_terminal_is_closed_or_its_reader_leaves() {
    use std::io::{BufRead, BufReader};

    let directory = tempfile::tempdir().unwrap();
    for leaves_at in [1, 6] {
        let mut child = demo(directory.path()).arg("--once").spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.nth(leaves_at - 1).is_some());
        drop(lines);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "nothing to explain");
        assert!(is_empty(directory.path()), "the demo leaves files behind");
    }

    let mut child = demo(directory.path()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("until Ctrl-C")));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(is_empty(directory.path()), "the demo leaves files behind");
}
