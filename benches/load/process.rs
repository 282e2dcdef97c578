//! What the kernel says of watched processes.

use std::fs;

/// CPU time of all threads so far, in nanoseconds.
pub fn cpu_ns(pids: &[u32]) -> u64 {
    let of_thread = |path: std::path::PathBuf| {
        let text = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
    };
    pids.iter()
        .flat_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).expect("the watched process runs"))
        .map(|entry| of_thread(entry.expect("a thread").path()))
        .sum()
}

/// Memory, each shared page divided among those who share it, in kilobytes.
pub fn pss_kb(pids: &[u32]) -> u64 {
    let of_process = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the watched process runs");
        let line = text.lines().find(|line| line.starts_with("Pss:")).expect("a Pss line");
        line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).expect("kilobytes")
    };
    pids.iter().map(of_process).sum()
}
