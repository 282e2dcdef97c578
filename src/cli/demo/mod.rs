//! `tollway demo`: a whole deployment in one process, one request through it, and what came of it.
//!
//! Nothing is staged but the provider: the server is the one of `tollway serve`, it is set up by a
//! file as `tollway apply` does, the request goes through its front door over HTTP, and what is
//! printed is read back from the store. `call` sends the request, `report` prints.

mod call;
mod report;

use std::{
    fs::DirBuilder,
    future::pending,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use tokio::time::{Instant, sleep};

use self::{call::FrontDoor, report::Report};
use super::{
    Global,
    serve::{ambient, runtime, start_telemetry},
};
use crate::{
    app::{
        apply::{Notation, Plan, Source, Tools, plan},
        build::{self, connect_ready},
        config::{Overrides, Settings, load_from},
        keys, parts,
        sandbox::{self, GOOD_KEY, LIMITED_KEY, MODEL},
        shutdown,
    },
    domain::{
        clock::{Entropy, SystemClock},
        event::UsageEvent,
        ids::TenantId,
        limits::Limits,
        principal::Role,
        secret::Secret,
    },
    identity::{Identity, NewToken, TokenForm},
    net::Guard,
    store::{EventFilter, Page, Store},
    telemetry::LogGuard,
    vault::OsEntropy,
};

/// How to show it.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Exit after the first request instead of staying up for more
    #[arg(long)]
    once: bool,
}

/// The file that sets everything up.
const SETUP: &str = include_str!("setup.yaml");
/// The tenant in it.
const TENANT: &str = "demo-team";
/// Where the server listens when nobody else does, as `serve` without settings would.
const USUAL_PORT: u16 = 8080;
/// How long a change takes to be in force, or a request to be in the store, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Shows it.
///
/// # Errors
/// When something does not work as it should.
pub fn run(global: &Global, args: &DemoArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        global.config.is_none() && global.data_dir.is_none(),
        "the demo has its own settings and a directory that is gone when it ends: leave --config and --data-dir out"
    );
    let directory = Directory::make()?;
    let settings = settings(&directory.0)?;
    let (logs, _) = start_telemetry(&settings)?;
    runtime()?.block_on(demo(&settings, &logs, args.once))?;
    Ok(ExitCode::SUCCESS)
}

/// Independent of the environment and of files: a demo shows the same to everybody.
fn settings(directory: &Path) -> anyhow::Result<Settings> {
    let is_free = TcpListener::bind((Ipv4Addr::LOCALHOST, USUAL_PORT)).is_ok();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, if is_free { USUAL_PORT } else { 0 }));
    let set = |overrides: Overrides, section, field, value: String| {
        overrides.with(section, field, "of the demo", Some(value))
    };
    let overrides = set(Overrides::default(), "data", "dir", directory.display().to_string());
    let overrides = set(overrides, "server", "listen", listen.to_string());
    let overrides = set(overrides, "server", "grace_period", "1s".to_owned());
    let overrides = set(overrides, "net", "allow", "127.0.0.0/8".to_owned());
    let overrides = set(overrides, "log", "level", "error".to_owned());
    Ok(load_from(&overrides, [], directory)?.0)
}

async fn demo(settings: &Settings, logs: &LogGuard, is_once: bool) -> anyhow::Result<()> {
    let sandbox = sandbox::start().context("no free port for the sandbox")?;
    let running = tokio::select! {
        running = build::start(settings, ambient(logs)) => running?,
        signal = shutdown::left() => return signal.map(drop).map_err(Into::into),
    };
    let report = Report::new(sandbox, running.address);
    let shown = tokio::select! {
        shown = show(settings, &report, is_once) => shown,
        signal = shutdown::left() => signal.map(drop).map_err(Into::into),
    };
    running.stop().await;
    shown
}

async fn show(settings: &Settings, report: &Report, is_once: bool) -> anyhow::Result<()> {
    report.greet(&settings.data.dir)?;
    let store = connect_ready(settings).await?;
    let plan = set_up(settings, &store, report.sandbox).await?;
    report.set_up(&plan)?;
    let tenant = store.find_tenant_by_name(TENANT).await?.context("the tenant was not set up")?;
    let token = token(settings, &store, Some(tenant.id), Role::Member).await?;
    let front_door = FrontDoor::new(report.relay, &token)?;
    in_force(&front_door).await?;

    report.ask(call::QUESTION)?;
    let mut answer = report.answer()?;
    front_door.chat(|text| Ok(answer.push(text)?)).await?;

    let event = recorded(&store, tenant.id).await?;
    report.happened(&store, &event).await?;
    if is_once {
        return Ok(());
    }
    report.invite(&token, &self::token(settings, &store, None, Role::Operator).await?)?;
    store.close().await;
    pending().await
}

/// As `tollway apply -f` would do beside the server.
async fn set_up(settings: &Settings, store: &Store, sandbox: SocketAddr) -> anyhow::Result<Plan> {
    let vault = keys::open_existing(store, settings).await?;
    let tools = Tools {
        store,
        vault: &vault,
        guard: &Guard::new(parts::guard(settings)),
        clock: &SystemClock,
        entropy: &OsEntropy,
        environment: &|name| match name {
            "SANDBOX_GOOD_KEY" => Some(GOOD_KEY.to_owned()),
            "SANDBOX_LIMITED_KEY" => Some(LIMITED_KEY.to_owned()),
            _ => None,
        },
    };
    let file = Source {
        file: "setup.yaml".to_owned(),
        directory: settings.data.dir.clone(),
        notation: Notation::Yaml,
        text: SETUP.replace("SANDBOX/", &format!("{sandbox}/")),
    };
    let plan = plan(&tools, &[file], false).await?;
    plan.carry_out(store).await?;
    Ok(plan)
}

/// As `tollway token issue` would make it.
async fn token(
    settings: &Settings,
    store: &Store,
    tenant: Option<TenantId>,
    role: Role,
) -> anyhow::Result<Secret> {
    let vault = Arc::new(keys::open_existing(store, settings).await?);
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(OsEntropy));
    let identity = Identity::try_new(parts::identity(settings), store.clone(), vault, clock, entropy)?;
    identity.start().await?;
    let new = NewToken {
        tenant,
        member: None,
        name: "demo".to_owned(),
        form: TokenForm::Opaque,
        role,
        grants: None,
        limits: Limits::default(),
        expires_at: None,
    };
    Ok(identity.issue(new).await?.1)
}

/// Waits until the server serves what was set up beside it.
async fn in_force(front_door: &FrontDoor) -> anyhow::Result<()> {
    let since = Instant::now();
    while !front_door.models().await?.contains(MODEL) {
        anyhow::ensure!(since.elapsed() < PATIENCE, "the server does not serve what was set up");
        sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Waits until the request is in the store; until then it is in the journal.
async fn recorded(store: &Store, tenant: TenantId) -> anyhow::Result<UsageEvent> {
    let filter = EventFilter { tenant_id: Some(tenant), ..EventFilter::default() };
    let since = Instant::now();
    loop {
        if let Some(event) = store.list_events(&filter, Page::first(1)).await?.pop() {
            return Ok(event);
        }
        anyhow::ensure!(
            since.elapsed() < PATIENCE,
            "the request did not get from the journal into the store"
        );
        sleep(LOOK_AGAIN).await;
    }
}

/// A directory that is gone when the demo ends.
struct Directory(PathBuf);

impl Directory {
    fn make() -> anyhow::Result<Self> {
        let mut random = [0; 8];
        OsEntropy.fill(&mut random);
        let path = std::env::temp_dir().join(format!("tollway-demo-{:016x}", u64::from_be_bytes(random)));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // There is nothing in it that anybody will miss, and nobody to tell.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
