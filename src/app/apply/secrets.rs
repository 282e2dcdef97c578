//! Fetching the credentials that files refer to.

use std::path::Path;

use super::entries::SecretEntry;
use crate::domain::secret::Secret;

/// What an environment variable holds.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + Sync + 'a;

/// The credential, or why there is none; the reason does not hold it.
pub fn fetch(entry: &SecretEntry, directory: &Path, environment: &Environment<'_>) -> Result<Secret, String> {
    let secret = match entry {
        SecretEntry::Literal(secret) => secret.clone(),
        SecretEntry::Environment(name) => {
            let found = environment(name);
            Secret::new(found.ok_or_else(|| format!("the environment variable {name} is not set"))?)
        }
        SecretEntry::File(path) => {
            let path = directory.join(path);
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            // Editors end a file with a line break that is not part of the credential.
            Secret::new(text.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    match secret.fault() {
        Some(reason) => Err(reason.to_owned()),
        None => Ok(secret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_comes_from_where_its_entry_says() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("key"), "from-file\n").unwrap();
        std::fs::write(directory.path().join("empty"), "\n").unwrap();
        let environment = |name: &str| (name == "SET").then(|| "from-env".to_owned());
        let fetched = |entry: SecretEntry| {
            fetch(&entry, directory.path(), &environment).map(|secret| secret.expose().to_owned())
        };
        assert_eq!(fetched(SecretEntry::Environment("SET".into())), Ok("from-env".into()));
        assert_eq!(fetched(SecretEntry::File("key".into())), Ok("from-file".into()));
        assert_eq!(fetched(SecretEntry::Literal(Secret::new("here".into()))), Ok("here".into()));
        for wrong in [
            SecretEntry::Environment("UNSET".into()),
            SecretEntry::File("none".into()),
            SecretEntry::File("empty".into()),
            SecretEntry::Literal(Secret::new("two\nlines".into())),
        ] {
            assert!(fetched(wrong).is_err());
        }
    }
}
