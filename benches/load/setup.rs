//! Tells a relay, before it boots, what it needs for a benchmark.

use std::path::PathBuf;

use tollway::{domain::provider::Transport, store::DatabaseUrl};

#[allow(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../../tests/it/harness/scene.rs"]
mod scene;

use self::scene::Scene;

/// Where the relay keeps its facts, and what stands behind it.
#[derive(clap::Args)]
pub struct Setup {
    /// `postgres://…`, or `sqlite:` and a file
    #[arg(long)]
    database: String,
    #[arg(long)]
    master_key: String,
    #[arg(long)]
    upstream_port: u16,
    /// Through the client for HTTP/2 instead of the lean one
    #[arg(long)]
    http2: bool,
    /// Kinds of answers; each becomes a provider and a model, named with dashes
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<PathBuf>,
}

/// Sets it up and returns an access token.
pub async fn run(setup: Setup) -> String {
    let url = DatabaseUrl::parse(&setup.database).expect("a database URL");
    let scene = Scene::open(url, &setup.master_key).await;
    for kind in &setup.kinds {
        let kind = kind.to_str().expect("a kind");
        let name = kind.replace('/', "-");
        let base_url = format!("http://127.0.0.1:{}/{kind}/v1", setup.upstream_port);
        let transport = if setup.http2 { Transport::Http2 } else { Transport::Http1 };
        let provider = scene.provider(&name, &base_url, |provider| provider.transport = transport).await;
        scene.key(&provider, "bench", "sk-bench", |_| ()).await;
        let model = scene.model(&name, |_| ()).await;
        scene.route(&model, &provider, |_| ()).await;
    }
    // Limits far away: they are counted, and never met.
    let tenant = scene.tenant("bench", |tenant| tenant.limits.rpm = Some(1_000_000_000)).await;
    scene.close().await;
    tenant.token
}
