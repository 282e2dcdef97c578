//! Reads all sources into typed sections, or says everything that is wrong.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::{
    section::{Problem, Reader},
    sections::Settings,
    source::{CONFIG_VARIABLE, Sources},
};

/// The file that is read when it exists and no other is named.
const DEFAULT_FILE: &str = "tollway.toml";

/// What the command line says about settings.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// Section, field, flag and text of every flag that was given.
    pub flags: Vec<(&'static str, &'static str, &'static str, String)>,
}

impl Overrides {
    /// Adds a flag, if it was given.
    #[must_use]
    pub fn with(
        mut self,
        section: &'static str,
        field: &'static str,
        flag: &'static str,
        given: Option<impl ToString>,
    ) -> Self {
        self.flags.extend(given.map(|text| (section, field, flag, text.to_string())));
        self
    }
}

/// Everything that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError(
    /// At least one, in the order found.
    pub Vec<Problem>,
);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the settings are wrong:")?;
        for Problem { origin, field, reason } in &self.0 {
            write!(f, "\n  {origin}: ")?;
            if !field.is_empty() {
                write!(f, "{field}: ")?;
            }
            f.write_str(reason)?;
        }
        Ok(())
    }
}

/// Reads the settings of this process.
///
/// # Errors
/// With every problem at once: file, line or variable, field, reason.
pub fn load(overrides: &Overrides) -> Result<(Settings, Sources), ConfigError> {
    // A variable that is no Unicode cannot be ours, and `vars` would panic on it.
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    load_from(overrides, std::env::vars_os().filter_map(text), Path::new("."))
}

/// Reads the settings from `environment`, with relative file names taken from `directory`.
///
/// # Errors
/// As [`load`].
pub fn load_from(
    overrides: &Overrides,
    environment: impl IntoIterator<Item = (String, String)>,
    directory: &Path,
) -> Result<(Settings, Sources), ConfigError> {
    let environment: Vec<(String, String)> = environment.into_iter().collect();
    let mut sources = Sources::default();
    let mut problems = Vec::new();
    read_file(overrides, &environment, directory, &mut sources, &mut problems);
    sources.add_environment(environment, &mut problems);
    for (section, field, flag, text) in &overrides.flags {
        sources.add_flag(section, field, flag, text.clone());
    }
    let settings = Settings::read(&mut Reader::new(&sources, &mut problems));
    match settings {
        Some(settings) if problems.is_empty() => Ok((settings, sources)),
        _ => Err(ConfigError(problems)),
    }
}

/// Reads the named file, which must exist, or the usual one, which need not.
fn read_file(
    overrides: &Overrides,
    environment: &[(String, String)],
    directory: &Path,
    sources: &mut Sources,
    problems: &mut Vec<Problem>,
) {
    let variable = environment.iter().find(|(name, _)| name == CONFIG_VARIABLE);
    let named = overrides.file.clone().or_else(|| variable.map(|(_, path)| PathBuf::from(path)));
    let is_named = named.is_some();
    let path = named.unwrap_or_else(|| DEFAULT_FILE.into());
    match std::fs::read_to_string(directory.join(&path)) {
        Ok(text) => sources.add_file(&path, &text, problems),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => {}
        Err(error) => problems.push(Problem {
            origin: super::Origin::File { path, line: 1 },
            field: String::new(),
            reason: format!("cannot be read: {error}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::app::config::{reference, show};

    #[derive(Default)]
    struct Set {
        file: &'static str,
        environment: &'static [(&'static str, &'static str)],
        overrides: Overrides,
    }

    impl Set {
        fn load(self) -> Result<(Settings, Sources), ConfigError> {
            let directory = tempfile::tempdir().unwrap();
            std::fs::write(directory.path().join("tollway.toml"), self.file).unwrap();
            let environment = self.environment.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
            load_from(&self.overrides, environment, directory.path())
        }

        fn problems(self) -> String {
            self.load().map(|_| ()).unwrap_err().to_string()
        }
    }

    #[test]
    fn every_default_is_valid() {
        let (settings, _) = Set::default().load().unwrap();
        assert_eq!(settings.server.grace_period, Duration::from_secs(30));
        assert_eq!(settings.server.body_limit.0, 32 << 20);
        assert!(settings.database.url.is_none() && settings.redis.url.is_empty());
    }

    #[test]
    fn flags_beat_variables_and_variables_beat_the_file() {
        let file = "[server]\nlisten = \"127.0.0.1:1\"\ngrace_period = \"1s\"\nworkers = 1\n";
        let environment = &[("TOLLWAY_SERVER_LISTEN", "127.0.0.1:2"), ("TOLLWAY_SERVER_GRACE_PERIOD", "2s")];
        let overrides = Overrides::default().with("server", "listen", "--listen", Some("127.0.0.1:3"));
        let (settings, sources) = Set { file, environment, overrides }.load().unwrap();
        assert_eq!(settings.server.listen.port(), 3);
        assert_eq!(settings.server.grace_period, Duration::from_secs(2));
        assert_eq!(settings.server.workers, 1);
        let shown = show(&sources);
        for origin in
            ["# flag --listen", "# env TOLLWAY_SERVER_GRACE_PERIOD", "# tollway.toml:4", "# default"]
        {
            assert!(shown.contains(origin), "{shown}");
        }
    }

    #[test]
    fn the_plain_database_variable_gives_way_to_our_own() {
        let environment = &[
            ("DATABASE_URL", "postgres://plain/x"),
            ("TOLLWAY_DATABASE_URL", "postgres://own/x"),
            ("REDIS_URL", "redis://r"),
        ];
        let (settings, _) = Set { environment, ..Set::default() }.load().unwrap();
        assert_eq!(settings.database.url.unwrap().secret.expose(), "postgres://own/x");
        assert_eq!(settings.redis.url.len(), 1);
    }

    #[test]
    fn an_unknown_setting_stops_the_start_with_its_line_and_the_nearest_name() {
        let problems = Set { file: "# a comment\n[server]\nlisen = \"x\"\n", ..Set::default() }.problems();
        assert!(problems.contains("tollway.toml:3: server.lisen: no such setting"), "{problems}");
        assert!(problems.contains("did you mean listen?"), "{problems}");
        let problems = Set { file: "\n[databse]\n", ..Set::default() }.problems();
        assert!(
            problems.contains("tollway.toml:2: databse: no such section; did you mean database?"),
            "{problems}"
        );
    }

    #[test]
    fn all_problems_are_told_at_once() {
        let file = "[server]\nworkers = \"many\"\ngrace_period = 30\n[redis]\nmode = \"cluster\"\n";
        let environment = &[("TOLLWAY_SERVER_KEPALIVE", "1s"), ("TOLLWAY_LOG_LEVEL", "loud!")];
        let problems = Set { file, environment, ..Set::default() }.problems();
        for line in [
            "\n  env TOLLWAY_SERVER_KEPALIVE: no such variable; did you mean TOLLWAY_SERVER_KEEP_ALIVE?",
            "tollway.toml:2: server.workers: expected a whole number",
            "tollway.toml:3: server.grace_period: expected a duration such as 500ms, 30s or 2h",
            "tollway.toml:5: redis.mode: needs redis.url to name the servers",
            "env TOLLWAY_LOG_LEVEL: log.level: expected a level such as info",
        ] {
            assert!(problems.contains(line), "no «{line}» in {problems}");
        }
    }

    #[test]
    fn a_broken_file_is_told_by_line() {
        let problems = Set { file: "[server]\n\nlisten = = 1\n", ..Set::default() }.problems();
        assert!(problems.contains("tollway.toml:3: not TOML"), "{problems}");
        let overrides = Overrides { file: Some("other.toml".into()), ..Overrides::default() };
        let problems = Set { overrides, ..Set::default() }.problems();
        assert!(problems.contains("other.toml:1: cannot be read"), "{problems}");
    }

    #[test]
    fn variables_of_kubernetes_are_passed_over() {
        let environment = &[
            ("TOLLWAY_SERVICE_HOST", "10.0.0.1"),
            ("TOLLWAY_PORT", "tcp://10.0.0.1:80"),
            ("TOLLWAY_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("TOLLWAY_SERVER_SERVICE_PORT_HTTP", "80"),
        ];
        assert!(Set { environment, ..Set::default() }.load().is_ok());
    }

    #[test]
    fn secrets_are_not_shown() {
        let environment = &[
            ("TOLLWAY_VAULT_MASTER_KEY", "mark-of-the-key"),
            ("DATABASE_URL", "postgres://u:mark-of-the-key@h/db"),
            ("TOLLWAY_IDENTITY_HS256_SECRET", "mark-of-the-key-mark-of-the-key-mark-of-the-key"),
        ];
        let (settings, sources) = Set { environment, ..Set::default() }.load().unwrap();
        assert!(!show(&sources).contains("mark-of-the-key"));
        assert!(!format!("{settings:?}").contains("mark-of-the-key"));
    }

    #[test]
    fn the_reference_page_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/settings.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == reference(), "run: tollway config reference > docs/settings.md");
    }
}
