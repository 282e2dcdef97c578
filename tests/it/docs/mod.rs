//! The documentation, held to what it says: links lead somewhere, names exist, commands run.

mod blocks;
mod links;
mod names;

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A Markdown page.
struct Page {
    /// Its path from the repository's root.
    path: PathBuf,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Markdown page of the repository.
fn pages() -> Vec<Page> {
    let mut pages = Vec::new();
    collect(root(), &mut pages);
    assert!(pages.iter().any(|page| page.path == Path::new("README.md")));
    pages
}

fn collect(dir: &Path, pages: &mut Vec<Page>) {
    for entry in fs::read_dir(dir).expect("list a directory") {
        let path = entry.expect("list a directory").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                collect(&path, pages);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let path = path.strip_prefix(root()).expect("below the root").to_owned();
            pages.push(Page { text: read(&path), path });
        }
    }
}

/// The lines outside code fences, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}
