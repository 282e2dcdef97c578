//! Every setting and metric that the documentation or a deployment file names exists, and an image
//! is built from everything that the build reads.

use std::{collections::BTreeSet, fs, path::Path};

use super::{pages, prose, read, root};

/// Variables of scripts and tests, which are no settings.
const OTHERS: &[&str] = &["TOLLWAY_BIN", "TOLLWAY_TEST_"];

/// Files beside the pages that name settings or metrics.
const FILES: &[&str] = &[
    "Dockerfile",
    "docker-compose.yml",
    "deploy/tollway.service",
    "deploy/prometheus.yml",
    "scripts/real-model",
];

/// Where names are used, and the text.
fn texts() -> Vec<(String, String)> {
    let pages = pages().into_iter().map(|page| (page.path.display().to_string(), page.text));
    pages.chain(FILES.iter().map(|file| ((*file).to_owned(), read(file)))).collect()
}

/// The words of `text` made of letters for which `is_part` holds.
fn words(text: &str, is_part: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    text.split(move |c| !is_part(c)).filter(|word| !word.is_empty())
}

#[test]
fn every_variable_named_is_a_setting() {
    let settings = read("docs/settings.md");
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let known: BTreeSet<_> = words(&settings, is_part).collect();
    let mut unknown = Vec::new();
    for (file, text) in texts() {
        for word in words(&text, is_part) {
            let is_ours = word.strip_prefix("TOLLWAY_").is_some_and(|name| !name.is_empty());
            if is_ours && !known.contains(word) && !OTHERS.iter().any(|other| word.starts_with(other)) {
                unknown.push(format!("{file}: {word}"));
            }
        }
    }
    assert!(unknown.is_empty(), "not in docs/settings.md:\n{}", unknown.join("\n"));
}

#[test]
fn every_dotted_setting_named_is_one() {
    let settings = read("docs/settings.md");
    let known: BTreeSet<_> = settings.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let sections: BTreeSet<_> = known.iter().filter_map(|name| Some(name.split_once('.')?.0)).collect();
    let mut unknown = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for (line, text) in prose(&page.text) {
            // What stands between backticks: every second piece.
            for word in text.split('`').skip(1).step_by(2) {
                let Some((section, name)) = word.split_once('.') else { continue };
                let is_name = name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_') && name != "rs";
                if !sections.contains(section) || !is_name {
                    continue;
                }
                seen += 1;
                if !known.contains(word) {
                    unknown.push(format!("{}:{line}: {word}", page.path.display()));
                }
            }
        }
    }
    assert!(seen > 10, "only {seen} settings were found: the search is broken");
    assert!(unknown.is_empty(), "not in docs/settings.md:\n{}", unknown.join("\n"));
}

#[test]
fn every_metric_named_exists() {
    let metrics = read("docs/metrics.md");
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let known: BTreeSet<_> = words(&metrics, is_part).collect();
    let mut unknown = Vec::new();
    for (file, text) in texts() {
        for word in words(&text, is_part) {
            if word.strip_prefix("tollway_").is_some_and(|name| !name.is_empty()) && !known.contains(word) {
                unknown.push(format!("{file}: {word}"));
            }
        }
    }
    assert!(unknown.is_empty(), "not in docs/metrics.md:\n{}", unknown.join("\n"));
}

#[test]
fn an_image_is_built_from_everything_that_the_build_reads() {
    let dockerfile = read("Dockerfile");
    let copied: BTreeSet<_> = dockerfile
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .filter(|line| !line.starts_with("--from"))
        .flat_map(|line| line.split_whitespace().map(|word| word.trim_start_matches("./")))
        .collect();
    let ignored = read(".dockerignore");
    let mut needed = BTreeSet::from([".cargo", "Cargo.toml", "Cargo.lock", "src"].map(str::to_owned));
    if read("Cargo.toml").contains("[[bench]]") {
        needed.insert("benches".to_owned());
    }
    included(&root().join("src"), &mut needed);
    assert!(needed.contains("migrations"), "the search for included files is broken");
    for path in needed {
        assert!(copied.contains(path.as_str()), "the Dockerfile does not copy {path}");
        assert!(!ignored.lines().any(|line| line == path), ".dockerignore keeps {path} out");
    }
}

/// The top-level directories outside `src` that its files include at build time.
fn included(dir: &Path, needed: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).expect("list a directory") {
        let path = entry.expect("list a directory").path();
        if path.is_dir() {
            included(&path, needed);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let depth = path.strip_prefix(root()).expect("below the root").components().count() - 1;
            let up = format!("\"{}", "../".repeat(depth));
            for line in read(&path).lines().filter(|line| line.contains("include_")) {
                let outside = line.split(&up).skip(1).filter_map(|rest| rest.split('/').next());
                needed.extend(outside.map(str::to_owned));
            }
        }
    }
}
