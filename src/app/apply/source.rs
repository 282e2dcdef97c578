//! Finding the files that a command line names.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Notation;

/// A file's text.
#[derive(Debug, Clone)]
pub struct Source {
    /// The file, as messages name it.
    pub file: String,
    /// Where relative names in it begin.
    pub directory: PathBuf,
    /// How it is written.
    pub notation: Notation,
    /// What it says.
    pub text: String,
}

/// Reads files, and of directories all `.yaml`, `.yml` and `.toml` files in the order of their names.
///
/// # Errors
/// When one cannot be read or is of another kind, or a directory has none.
pub fn sources(paths: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let files = files_in(path)?;
            anyhow::ensure!(!files.is_empty(), "{} has no .yaml, .yml or .toml file", path.display());
            for file in files {
                found.push(read(&file)?);
            }
        } else {
            found.push(read(path)?);
        }
    }
    Ok(found)
}

fn files_in(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let reading = || format!("cannot read {}", directory.display());
    let entries = std::fs::read_dir(directory).with_context(reading)?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(reading)?.path();
        if path.is_file() && notation(&path).is_some() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> anyhow::Result<Source> {
    let notation = notation(path);
    let notation = notation.with_context(|| format!("{} is no .yaml, .yml or .toml file", path.display()))?;
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
    Ok(Source { file: path.display().to_string(), directory, notation, text })
}

fn notation(path: &Path) -> Option<Notation> {
    match path.extension()?.to_str()? {
        "yaml" | "yml" => Some(Notation::Yaml),
        "toml" => Some(Notation::Toml),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stands_for_its_files_in_order_and_for_no_others() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.toml", "a.yaml", "notes.md", "c.yml"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let found = sources(&[directory.path().to_path_buf()]).unwrap();
        let names: Vec<_> = found.iter().map(|source| source.file.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["a.yaml", "b.toml", "c.yml"]);
        assert!(sources(&[directory.path().join("notes.md")]).is_err());
        assert!(sources(&[directory.path().join("none.yaml")]).is_err());
    }
}
