//! The commands where no server is: what they say, and how they end.

use std::{
    io::{BufRead, BufReader},
    process::{Output, Stdio},
};

use crate::harness::server::Setup;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_whose_reader_leaves_ends_quietly() {
    let setup = Setup::alone();
    for arguments in [&["config", "show"][..], &["config", "reference"], &["config", "metrics"]] {
        let mut command = setup.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::with_capacity(1, child.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        drop(lines);
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 141)), "{arguments:?}: {output:?}");
        assert_eq!(said(&output), "", "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_command_that_cannot_print_says_so() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = Setup::alone().command(&["config", "show"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("tollway: cannot write to standard output\n  because: "), "{output:?}");
}

#[test]
fn a_check_finds_what_a_start_would() {
    let alone_with_redis = Setup::alone().set("REDIS_URL", "redis://127.0.0.1:9");
    let no_key = || {
        let setup = Setup::alone().set("DATABASE_URL", "postgres://127.0.0.1:9/x");
        setup.set("TOLLWAY_VAULT_MASTER_KEY", "").set("REDIS_URL", "redis://127.0.0.1:9/no-number")
    };
    let short_key = Setup::alone().set("TOLLWAY_VAULT_MASTER_KEY", "c2hvcnQ=");
    for (setup, told) in [
        (alone_with_redis, &["env REDIS_URL: redis.url: Redis without Postgres makes no sense"][..]),
        (no_key(), &["vault.master_key: there is no master key", "env REDIS_URL: redis.url: "]),
        (short_key, &["env TOLLWAY_VAULT_MASTER_KEY: vault.master_key: "]),
    ] {
        for arguments in [&["config", "check"][..], &["serve", "--listen", "127.0.0.1:0"]] {
            let output = setup.command(arguments).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            for line in told {
                assert!(said(&output).contains(line), "{arguments:?} says\n{}", said(&output));
            }
        }
    }
    assert_eq!(Setup::alone().run(&["config", "check"]), "the settings are right\n");
}

#[test]
fn a_wrong_flag_says_what_is_expected() {
    let output = Setup::alone().command(&["serve", "--listen", "localhost"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "flag --listen: server.listen: expected an address and port such as 127.0.0.1:8080";
    assert!(said(&output).contains(expected), "{}", said(&output));
}
