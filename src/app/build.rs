//! All parts, bottom-up in one straight function.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use anyhow::Context;

use super::{
    background,
    config::Settings,
    files::{self, DataLock},
    keys, parts,
    replica::Presence,
    tasks::{Tasks, run_once},
};
use crate::{
    admission::{Admission, Past, SettlePass, Subject},
    billing::{
        estimate::Calibration,
        funds::Funds,
        journal::{Journal, RecentAttempt, Recovered, by_tenant, undrained},
    },
    catalog::Catalog,
    domain::{
        clock::{Entropy, SharedClock, SharedEntropy, Timestamp},
        secret::Secret,
    },
    http::{
        SurfaceConfig, Surfaces,
        admin::Desk,
        arrival::Receptionist,
        ops,
        serve::{self, ServeHandle},
    },
    identity::Identity,
    net::{Client, Guard, Tls},
    relay::{Parts, Relay, RelayConfig},
    store::{Counting, Store, StoreError},
    telemetry::Metrics,
    upstream::Upstream,
    vault::Vault,
};

/// What a server takes from its process, and a test in its place.
#[derive(Debug, Clone)]
pub struct Ambient {
    /// Time.
    pub clock: SharedClock,
    /// Randomness.
    pub entropy: SharedEntropy,
    /// Where it counts.
    pub metrics: Arc<Metrics>,
    /// Log lines dropped by the process.
    pub log_lines_dropped: Arc<AtomicU64>,
}

/// A server that serves. [`Running::stop`] ends it in order; dropped, its tasks are told to end and
/// the rest is as if the process was killed.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// The master key file made by this start; it has no backup yet.
    pub made_master_key: Option<PathBuf>,
    /// Sets up the first operator, once; none when there is one.
    pub set_up_token: Option<Secret>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) drain_delay: Duration,
    pub(super) server: ServeHandle,
    pub(super) tasks: Tasks,
    pub(super) journal: Journal,
    pub(super) store: Store,
    pub(super) metrics: Arc<Metrics>,
    _data_lock: Option<DataLock>,
}

/// Starts a server: binds, opens what it keeps, and serves. The settings have passed
/// [`preflight`](super::preflight::check).
///
/// # Errors
/// With what happened, where, and what to do about it.
///
/// # Cancellation
/// Dropped half-way it is as if the process was killed.
pub async fn start(settings: &Settings, ambient: Ambient) -> anyhow::Result<Running> {
    let is_alone = settings.database.url.is_none();
    install_crypto();
    let Ambient { clock, entropy, metrics, log_lines_dropped } = ambient;
    let listen = settings.server.listen;
    let listener = serve::bind(listen)
        .with_context(|| format!("cannot listen on {listen}: set server.listen to a free address"))?;
    let address = listener.local_addr()?;

    files::make_data_dir(&settings.data.dir)?;
    let data_lock = is_alone.then(|| files::lock_data_dir(&settings.data.dir)).transpose()?;
    let store = connect(settings).await?;
    let found = master_key(settings, &store, is_alone, &*entropy).await?;
    let vault = Arc::new(keys::open_vault(&store, &found.key, &*clock, Arc::clone(&entropy)).await?);

    files::make_journal_dir(&files::journal(settings))?;
    let (journal, recovered) = Journal::open(parts::journal(settings), &*clock, &*entropy)
        .with_context(|| format!("the journal in {} cannot be opened", files::journal(settings).display()))?;
    background::tell_recovered(&recovered);
    let counting = if settings.redis.url.is_empty() { Counting::ByItself } else { Counting::Together };
    let presence = Presence::announce(store.clone(), journal.clone(), clock.clone(), counting).await?;
    let admission = parts::admission(settings, journal.replica(), clock.clone(), &metrics)?;
    carry_over(&admission, &recovered);
    let identity = Identity::try_new(
        parts::identity(settings),
        store.clone(),
        Arc::clone(&vault),
        clock.clone(),
        entropy.clone(),
    )?;
    identity.start().await.context("access tokens cannot be verified")?;
    let identity = Arc::new(identity);
    let catalog = Arc::new(Catalog::load(store.clone(), admission.clone(), clock.clone()).await?);
    let set_up_token = set_up_token(&store, &identity, clock.now()).await?;

    let draining = Arc::new(AtomicBool::new(false));
    let ops = Arc::new(ops::Ops {
        store: store.clone(),
        admission: admission.clone(),
        journal: journal.clone(),
        catalog: Arc::clone(&catalog),
        identity: Arc::clone(&identity),
        metrics: Arc::clone(&metrics),
        clock: clock.clone(),
        draining: Arc::clone(&draining),
        log_lines_dropped,
        scrape: parts::scrape(&settings.metrics),
    });
    let undrained = undrained(journal.dir()).context("the journal cannot be read")?;
    let funds = Arc::new(Funds::new(store.clone(), &by_tenant(undrained.values())));
    let tasks = Tasks::new(Arc::clone(&metrics));
    background::spawn_all(
        &tasks,
        background::Floors {
            store: store.clone(),
            admission: admission.clone(),
            journal: journal.clone(),
            funds: Arc::clone(&funds),
            catalog: Arc::clone(&catalog),
            identity: Arc::clone(&identity),
            metrics: Arc::clone(&metrics),
            clock: clock.clone(),
            presence: Arc::new(presence),
        },
    );
    let worker = Worker {
        store: store.clone(),
        identity,
        catalog,
        admission,
        journal: journal.clone(),
        funds,
        vault,
        guard: Arc::new(Guard::new(parts::guard(settings))),
        tls: Tls::platform().context("no trusted certificates: install ca-certificates")?,
        calibration: Arc::default(),
        metrics: Arc::clone(&metrics),
        clock,
        entropy,
        config: parts::relay(settings),
        surfaces: parts::surfaces(settings),
    };
    let (handle, server) = serve::serve(listener, &parts::serve(settings), ops, move || worker.surfaces())?;
    drop(run_once(server));
    Ok(Running {
        address,
        made_master_key: found.made,
        set_up_token,
        draining,
        drain_delay: settings.server.drain_delay,
        server: handle,
        tasks,
        journal,
        store,
        metrics,
        _data_lock: data_lock,
    })
}

/// redis and the trace exporter take the process's TLS provider; ours is ring, as everywhere else.
pub fn install_crypto() {
    // Refused when there is one already, which is what is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The master key, made where there is none. Beside a database that was sealed none is made: it could
/// not open what the lost one sealed, and would look like the right one.
async fn master_key(
    settings: &Settings,
    store: &Store,
    is_alone: bool,
    entropy: &dyn Entropy,
) -> anyhow::Result<files::FoundKey> {
    let may_make = is_alone && store.list_vault_keys().await?.is_empty();
    files::master_key(&settings.vault, &settings.data.dir, may_make, entropy)
}

/// Connects to the database and brings its schema up to date, or refuses to serve on it.
async fn connect(settings: &Settings) -> anyhow::Result<Store> {
    let store = open_store(settings).await?;
    if settings.database.url.is_none() || settings.database.migrate {
        store.migrate().await.context("the schema cannot be brought up to date")?;
    }
    check_schema(&store).await?;
    Ok(store)
}

/// Connects to a database whose schema is up to date; what a command beside a server does.
///
/// # Errors
/// When the database does not answer, or its schema is not this build's.
pub async fn connect_ready(settings: &Settings) -> anyhow::Result<Store> {
    let file = files::database(settings);
    anyhow::ensure!(
        settings.database.url.is_some() || file.exists(),
        "there is no database at {}: set data.dir or DATABASE_URL to the server's, or start `tollway serve` once, \
         which makes it",
        file.display()
    );
    let store = open_store(settings).await?;
    check_schema(&store).await?;
    Ok(store)
}

async fn open_store(settings: &Settings) -> anyhow::Result<Store> {
    Store::connect(&parts::store(settings)).await.with_context(|| match &settings.database.url {
        Some(_) => "the database does not answer: check database.url (DATABASE_URL)".to_owned(),
        None => format!("the database {} cannot be opened", files::database(settings).display()),
    })
}

async fn check_schema(store: &Store) -> anyhow::Result<()> {
    store.check_schema().await.map_err(|error| match error {
        StoreError::IncompleteSchema { .. } => anyhow::Error::new(error).context(
            "the schema is older than this build: run `tollway migrate`, or set database.migrate = true",
        ),
        other => anyhow::Error::new(other),
    })
}

/// An attempt as admission counts it: the request itself counts with its last one.
fn past(attempt: &RecentAttempt) -> Past {
    let subjects = [
        Some(Subject::Tenant),
        attempt.member.map(Subject::Member),
        Some(Subject::AccessToken(attempt.token)),
    ];
    Past {
        tenant: attempt.tenant,
        subjects: subjects.into_iter().flatten().filter(|_| attempt.is_last).collect(),
        provider: attempt.provider,
        key: attempt.key,
        at: attempt.at,
        tokens: attempt.tokens,
    }
}

/// Goes on counting where the last process ended, and gives back what its requests held: nobody
/// else will.
fn carry_over(admission: &Admission, recovered: &Recovered) {
    admission.remember(recovered.recent.iter().map(past).collect());
    for hold in &recovered.holds {
        admission.settle_pass(SettlePass {
            request: hold.request,
            tenant: hold.tenant,
            windows: Vec::new(),
            reserved: 0,
            used: None,
        });
    }
}

/// A fresh set-up token while there is no operator; those of earlier starts lapse by themselves.
async fn set_up_token(store: &Store, identity: &Identity, now: Timestamp) -> anyhow::Result<Option<Secret>> {
    if store.has_operator(now).await? {
        return Ok(None);
    }
    Ok(Some(identity.issue_setup_token().await?))
}

/// What each worker thread makes its own parts from.
#[derive(Clone)]
struct Worker {
    store: Store,
    identity: Arc<Identity>,
    catalog: Arc<Catalog>,
    admission: Admission,
    journal: Journal,
    funds: Arc<Funds>,
    vault: Arc<Vault>,
    guard: Arc<Guard>,
    tls: Tls,
    calibration: Arc<Calibration>,
    metrics: Arc<Metrics>,
    clock: SharedClock,
    entropy: SharedEntropy,
    config: RelayConfig,
    surfaces: SurfaceConfig,
}

impl Worker {
    /// Runs on the worker's thread: its connections live in its runtime.
    fn surfaces(&self) -> Surfaces {
        let client = Client::new(Arc::clone(&self.guard), &self.tls);
        let relay = Relay::new(Parts {
            catalog: Arc::clone(&self.catalog),
            admission: self.admission.clone(),
            upstream: Upstream::new(client, Arc::clone(&self.vault)),
            journal: self.journal.clone(),
            funds: Arc::clone(&self.funds),
            calibration: Arc::clone(&self.calibration),
            metrics: Arc::clone(&self.metrics),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            replica: self.journal.replica(),
            config: self.config,
        });
        let receptionist =
            Receptionist { clock: Arc::clone(&self.clock), entropy: Arc::clone(&self.entropy) };
        Surfaces {
            relay,
            identity: Arc::clone(&self.identity),
            receptionist,
            metrics: Arc::clone(&self.metrics),
            config: self.surfaces.clone(),
            desk: self.desk(),
        }
    }

    fn desk(&self) -> Desk {
        Desk {
            store: self.store.clone(),
            vault: Arc::clone(&self.vault),
            identity: Arc::clone(&self.identity),
            catalog: Arc::clone(&self.catalog),
            admission: self.admission.clone(),
            funds: Arc::clone(&self.funds),
            guard: Arc::clone(&self.guard),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
        }
    }
}
