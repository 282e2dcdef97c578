//! One instance for all tests of a run, also when each test is a process of its own.

use std::{
    fs::{self, File},
    os::unix::process::parent_id,
    path::{Path, PathBuf},
    sync::Mutex,
};

use super::daemon::guarded_dir;

/// The URL of the run's instance of `what`; the first caller starts it with `start` in a fresh directory.
///
/// Under nextest all processes of a run agree by the run's id and the instance lives as long as the runner;
/// otherwise this process is the run.
pub fn shared(what: &str, start: impl FnOnce(&Path) -> String) -> String {
    static IN_PROCESS: Mutex<()> = Mutex::new(());
    let _guard = IN_PROCESS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = run_dir();
    let lock = File::create(dir.with_extension("lock")).expect("create the lock file");
    lock.lock().expect("lock the run's services");
    if !dir.is_dir() {
        guarded_dir(&dir, runner());
    }
    let state = dir.join(format!("{what}.url"));
    if let Ok(url) = fs::read_to_string(&state) {
        return url;
    }
    let own = dir.join(what);
    let _ = fs::remove_dir_all(&own);
    fs::create_dir_all(&own).expect("make a directory for the service");
    let url = start(&own);
    fs::write(&state, &url).expect("write the service's URL");
    url
}

fn run_dir() -> PathBuf {
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string());
    std::env::temp_dir().join(format!("tollway-test-run-{run}"))
}

fn runner() -> u32 {
    if std::env::var_os("NEXTEST_RUN_ID").is_some() { parent_id() } else { std::process::id() }
}
