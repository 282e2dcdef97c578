//! The house's one rule, checked: a module imports only from floors below it, and a library that
//! belongs to one floor is named nowhere else.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Every top-level module and its floor (DESIGN §3).
const FLOORS: &[(&str, u8)] = &[
    ("app", 7),
    ("http", 6),
    ("cli", 6),
    ("relay", 5),
    ("catalog", 4),
    ("upstream", 4),
    ("billing", 4),
    ("identity", 4),
    ("store", 3),
    ("admission", 3),
    ("vault", 2),
    ("net", 2),
    ("telemetry", 2),
    ("domain", 1),
    ("wire", 1),
];

/// `cli` runs the server, so it may name `app`; nothing else looks up.
const EXCEPTIONS: &[(&str, &str)] = &[("cli", "app")];

/// Which modules may name a library.
const OWNERS: &[(&str, &[&str])] = &[
    ("actix_cors", &["http"]),
    ("actix_http", &["http"]),
    ("actix_server", &["http"]),
    ("actix_service", &["http"]),
    ("actix_web", &["http", "app"]),
    ("sqlx", &["store"]),
    ("redis", &["admission"]),
    ("reqwest", &["net", "upstream", "telemetry"]),
    ("httparse", &["net"]),
    ("jsonwebtoken", &["identity"]),
    ("governor", &["identity", "http"]),
    ("aes_gcm", &["vault"]),
    ("prometheus", &["telemetry"]),
    ("clap", &["cli"]),
];

/// Files that may be longer than [`LONGEST`] lines, each with its reason.
const LONG: &[(&str, &str)] = &[];
const LONGEST: usize = 400;

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            out.push(path);
        }
    }
}

/// Path below `src`, its module, and its text without comment lines.
fn files() -> Vec<(String, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&root, &mut paths);
    assert!(paths.len() > 20, "the walk found the sources");
    paths
        .into_iter()
        .map(|path| {
            let below = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            let module = below.split(['/', '.']).next().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            (below, module, code.collect::<Vec<_>>().join("\n"))
        })
        .collect()
}

fn floor(module: &str) -> Option<u8> {
    FLOORS.iter().find(|(name, _)| *name == module).map(|&(_, floor)| floor)
}

/// The top-level modules that `code` names through `crate::`, grouped imports included.
fn imports(code: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut start = true;
            for (i, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => start = true,
                    c if start && depth == 0 && is_name(c) => {
                        start = false;
                        found.push(group[i..].split(|c| !is_name(c)).next().unwrap());
                    }
                    _ => {}
                }
            }
        } else {
            found.push(rest.split(|c| !is_name(c)).next().unwrap());
        }
    }
    found
}

#[test]
fn a_module_imports_only_from_floors_below_it() {
    let mut wrong = Vec::new();
    for (path, module, code) in files() {
        let Some(own) = floor(&module) else { continue };
        for other in imports(&code) {
            let Some(theirs) = floor(other) else { continue };
            let allowed = other == module || theirs < own || EXCEPTIONS.contains(&(module.as_str(), other));
            if !allowed {
                wrong.push(format!("{path} imports {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that point up or sideways:\n{}", wrong.join("\n"));
}

#[test]
fn every_module_of_the_tree_has_a_floor() {
    for (path, module, _) in files() {
        let known = floor(&module).is_some() || ["lib", "main"].contains(&module.as_str());
        assert!(known, "{path} belongs to no floor; add its module to FLOORS");
    }
}

#[test]
fn a_library_is_named_only_where_it_belongs() {
    let mut wrong = Vec::new();
    for (path, module, code) in files() {
        for (library, owners) in OWNERS {
            let named = [format!("use {library}::"), format!(" {library}::"), format!("({library}::")];
            // A module of our own may bear the library's name, such as the settings' section `redis`.
            let is_ours = code.contains(&format!("mod {library};"));
            let is_named = !is_ours && named.iter().any(|name| code.contains(name.as_str()));
            if is_named && !owners.contains(&module.as_str()) {
                wrong.push(format!("{path} names {library}"));
            }
        }
    }
    assert!(wrong.is_empty(), "libraries out of place:\n{}", wrong.join("\n"));
}

#[test]
fn no_file_outgrows_a_reader() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for dir in ["src", "tests", "benches"] {
        sources(&root.join(dir), &mut paths);
    }
    let long: Vec<_> = paths
        .iter()
        .map(|path| (path.strip_prefix(root).unwrap().display().to_string(), path))
        .filter(|(name, _)| !LONG.iter().any(|(known, _)| known == name))
        .map(|(name, path)| (fs::read_to_string(path).unwrap().lines().count(), name))
        .filter(|(lines, _)| *lines > LONGEST)
        .collect();
    assert!(long.is_empty(), "files over {LONGEST} lines, split them or give a reason in LONG: {long:?}");
}

#[test]
fn grouped_and_single_imports_are_both_seen() {
    let code = "use crate::{\n  a::{b, c::d},\n  e,\n};\nuse crate::f::g;\ncrate::h::i();";
    assert_eq!(imports(code), ["a", "e", "f", "h"]);
}
