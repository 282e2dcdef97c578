//! Every relative link leads to a file that exists, and to a heading in it.

use std::path::{Component, Path, PathBuf};

use super::{Page, pages, prose, root};

#[test]
fn every_relative_link_leads_somewhere() {
    let pages = pages();
    let mut dead = Vec::new();
    for page in &pages {
        for (line, link) in links(&page.text) {
            if let Err(reason) = follow(page, link, &pages) {
                dead.push(format!("{}:{line}: {link}: {reason}", page.path.display()));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

/// The targets of `[text](target)`, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let found = prose(text).flat_map(|(number, line)| {
        line.split("](").skip(1).filter_map(move |rest| Some((number, rest.split_once(')')?.0)))
    });
    found.collect()
}

fn follow(page: &Page, link: &str, pages: &[Page]) -> Result<(), &'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return Ok(());
    }
    let (path, heading) = link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
    let target = if path.is_empty() { page.path.clone() } else { resolved(&page.path, path) };
    if !root().join(&target).exists() {
        return Err("no such file");
    }
    let Some(heading) = heading else { return Ok(()) };
    let target = pages.iter().find(|page| page.path == target).ok_or("not a page")?;
    let mut headings = prose(&target.text).filter_map(|(_, line)| line.strip_prefix('#'));
    headings.any(|line| anchor(line) == heading).then_some(()).ok_or("no such heading")
}

/// `link` as seen from `page`, without `..`.
fn resolved(page: &Path, link: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(link).components() {
        match component {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(part) => path.push(part),
            _ => {}
        }
    }
    path
}

/// The anchor that a forge gives a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn a_dead_link_is_found() {
    let page = |path: &str, text: &str| Page { path: path.into(), text: text.to_owned() };
    let pages = [page("README.md", "# A b: c!\n```\n# not one\n```\n"), page("docs/deploy.md", "")];
    assert_eq!(
        links("see [a](b.md#c) and [d](e)\n```\n[f](g)\n```\n[h](i)"),
        [(1, "b.md#c"), (1, "e"), (5, "i")]
    );
    for (link, is_alive) in [
        ("../README.md", true),
        ("../README.md#a-b-c", true),
        ("../README.md#not-one", false),
        ("README.md", false),
        ("https://example.com/nowhere", true),
    ] {
        assert_eq!(follow(&pages[1], link, &pages).is_ok(), is_alive, "{link}");
    }
}
