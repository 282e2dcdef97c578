//! What a server needs of its settings taken together, judged before anything is opened: `serve` begins
//! with it, `config check` is it. A section's own rules are in `config/sections`.

use std::sync::Arc;

use super::{
    config::{ConfigError, Settings, Sources},
    files, parts,
};
use crate::{
    domain::{
        clock::{Clock, Entropy, SystemClock},
        ids::ReplicaId,
    },
    telemetry::Metrics,
    vault::OsEntropy,
};

/// Looks at settings that are right section by section.
///
/// # Errors
/// With everything that would keep a server from starting on them, whatever it will meet.
pub fn check(settings: &Settings, sources: &Sources) -> Result<(), ConfigError> {
    let mut problems = Vec::new();
    let mut wrong = |section, field, reason: String| problems.push(sources.problem(section, field, reason));
    let is_alone = settings.database.url.is_none();
    if is_alone && !settings.redis.url.is_empty() {
        wrong("redis", "url", REDIS_ALONE.to_owned());
    }
    match files::find_master_key(&settings.vault, &settings.data.dir) {
        Ok(None) if !is_alone => wrong("vault", "master_key", files::NO_MASTER_KEY.to_owned()),
        Ok(_) => {}
        Err(error) => {
            let named =
                if settings.vault.master_key_file.is_some() { "master_key_file" } else { "master_key" };
            wrong("vault", named, in_words(&error));
        }
    }
    // Nothing is sent before the first request.
    let replica = ReplicaId::generate(SystemClock.now(), OsEntropy.id_bytes());
    let metrics = Arc::new(Metrics::new());
    if let Err(error) = parts::admission(settings, replica, Arc::new(SystemClock), &metrics) {
        wrong("redis", "url", in_words(&error));
    }
    if let Err(error) = parts::logs(settings) {
        wrong("log", "level", in_words(&error));
    }
    if problems.is_empty() { Ok(()) } else { Err(ConfigError(problems)) }
}

const REDIS_ALONE: &str = "Redis without Postgres makes no sense: it shares counters among replicas, and a SQLite \
                           file has one. Set DATABASE_URL to a Postgres, or leave this out";

fn in_words(error: &anyhow::Error) -> String {
    format!("{error:#}")
}
