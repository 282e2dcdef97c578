//! A server process that cannot outlive the tests it was started for.

use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// How long a server may take from start to ready on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A started server process, its directory, and the watchdog that removes both when `owner` is gone.
pub struct Daemon {
    dir: PathBuf,
    pid: Pid,
    /// None once the server was handed over to the whole run.
    child: Option<Child>,
}

impl Daemon {
    /// Starts `command` with its output in `dir/log` and waits until `is_ready`.
    ///
    /// # Errors
    /// The end of the log when the process ends before it is ready, or does not become ready in time.
    pub fn start(command: &mut Command, dir: &Path, is_ready: impl Fn() -> bool) -> Result<Self, String> {
        let log = File::options().create(true).append(true).open(dir.join("log")).expect("open the log");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("share the log"))
            .stderr(log)
            // A Ctrl-C at the terminal is for the runner; the server stops when its tests have.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{} does not start: {error}", command.get_program().display()))?;
        fs::write(dir.join("pid"), child.id().to_string()).expect("write the pid");
        let since = Instant::now();
        while !is_ready() {
            let ended = child.try_wait().expect("ask for the child's state").is_some();
            if ended || since.elapsed() > START_LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                let log = fs::read_to_string(dir.join("log")).unwrap_or_default();
                return Err(format!("{} does not get ready:\n{log}", command.get_program().display()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        let pid = Pid::from_child(&child);
        Ok(Self { dir: dir.to_owned(), pid, child: Some(child) })
    }

    /// Leaves the process to the watchdog of its directory: it now lives as long as the run.
    pub fn hand_over(mut self) {
        self.child = None;
    }

    /// Stops the process where it stands, its children too; connections stay open and nothing answers.
    pub fn freeze(&self) {
        for pid in self.family() {
            let _ = kill_process(pid, Signal::STOP);
        }
    }

    /// Lets a frozen process go on.
    pub fn thaw(&self) {
        for pid in self.family() {
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Ends the process at once, as a crash would, and waits until it is gone.
    pub fn kill(&mut self) {
        for pid in self.family() {
            let _ = kill_process(pid, Signal::KILL);
        }
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }

    /// The process and its children; Postgres serves each connection from a child of its own.
    fn family(&self) -> Vec<Pid> {
        let mut family = vec![self.pid];
        family.extend(fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name in parentheses may hold anything; the parent is the second field after it.
            let parent: i32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
            let own: i32 = entry.file_name().to_str()?.parse().ok()?;
            (parent == self.pid.as_raw_nonzero().get()).then(|| Pid::from_raw(own)).flatten()
        }));
        family
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
            let _ = fs::remove_file(self.dir.join("pid"));
        }
    }
}

/// A directory for servers that is removed, and the servers in it killed, when process `owner` has gone.
///
/// The servers are those whose pid stands in `dir/pid` or `dir/*/pid`.
pub fn guarded_dir(dir: &Path, owner: u32) {
    fs::create_dir_all(dir).expect("make a directory for services");
    let watchdog = "
        dir=$1; owner=$2; trap '' INT HUP TERM
        while kill -0 \"$owner\" 2>/dev/null && [ -d \"$dir\" ]; do sleep 0.5; done
        for pid in \"$dir\"/pid \"$dir\"/*/pid; do
            [ -f \"$pid\" ] || continue
            read -r server <\"$pid\" || [ -n \"$server\" ] || continue
            # Postgres takes QUIT as: stop now, children too. For the others it is a plain end.
            kill -CONT \"$server\"; kill -QUIT \"$server\"; sleep 0.2; kill -KILL \"$server\"
        done 2>/dev/null
        rm -rf \"$dir\" \"$dir.lock\"";
    // Spawned through a shell that ends at once: nobody has to reap the watchdog.
    let status = Command::new("sh")
        .args(["-c", "sh -c \"$1\" watchdog \"$2\" \"$3\" </dev/null >/dev/null 2>&1 &", "sh", watchdog])
        .arg(dir)
        .arg(owner.to_string())
        .process_group(0)
        .status()
        .expect("start the watchdog");
    assert!(status.success(), "the watchdog does not start");
}

/// A directory of this test's own under the system's temporary directory, removed with this process.
pub fn private_dir(what: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tollway-test-{what}-{}", uuid()));
    guarded_dir(&dir, std::process::id());
    dir
}

/// Whether process `pid` is there.
pub fn is_alive(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// A loopback port nobody listens on, below the range the system gives to outgoing connections.
///
/// A port of that range could be taken by a client's connection (even to itself) while its server is down.
/// The cluster bus, 10 000 above, stays below that range too.
pub fn free_port() -> u16 {
    for _ in 0..1_000 {
        let port = 15_000 + u16::try_from(u128::from_be_bytes(*rand_bytes().as_bytes()) % 7_700).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free loopback port between 15000 and 22700");
}

/// Finds an executable by name in `PATH` and `more`.
pub fn find_binary(name: &str, more: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(more.iter().cloned())
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// A short random name, unique in this run.
pub fn uuid() -> String {
    rand_bytes().simple().to_string()[..12].to_owned()
}

fn rand_bytes() -> uuid::Uuid {
    uuid::Uuid::from_u128(rand::random())
}
