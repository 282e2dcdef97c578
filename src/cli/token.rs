//! `tollway token issue|list|revoke|rotate-key`: access tokens, in the store that the settings name.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};

use super::{
    Global,
    keys::limits,
    names,
    print::{say, tell},
    serve::runtime,
    table::Table,
};
use crate::{
    app::{
        build::{connect_ready, install_crypto},
        config::Settings,
        keys, parts,
    },
    domain::{
        clock::{Clock, SystemClock, Timestamp},
        grant::{Grants, Pattern},
        ids::{AccessTokenId, TenantId},
        limits::Limits,
        principal::Role,
        tenant::{AccessToken, AccessTokenKind, Member},
    },
    identity::{Identity, NewToken, TokenForm},
    store::{AccessTokenFilter, Store, every},
    vault::OsEntropy,
};

/// What to do with access tokens.
#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make an access token; standard output is the token and nothing else
    Issue(Box<IssueArgs>),
    /// Print the access tokens; their texts are nowhere kept
    List {
        /// Of this tenant only
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
    },
    /// Revoke an access token; every replica refuses it within 2 s
    Revoke {
        /// Its id, tok_…, as issue and list print it
        id: AccessTokenId,
    },
    /// Make a new key pair that signs JWTs from now on; those signed before stay valid for the overlap
    RotateKey {
        /// How long the old keys verify: as long as the longest-lived JWT they signed
        #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration, default_value = "30d")]
        overlap: Duration,
    },
}

/// The access token to make.
#[derive(Debug, Args)]
struct IssueArgs {
    /// The tenant it is for
    #[arg(long, value_name = "NAME", required_unless_present = "operator")]
    tenant: Option<String>,
    /// An operator's token, for /admin/v1
    #[arg(long, conflicts_with_all = ["tenant", "member", "role", "model", "rpm", "tpm", "concurrency"])]
    operator: bool,
    /// The member it stands for, by subject
    #[arg(long, value_name = "SUBJECT")]
    member: Option<String>,
    /// A name for people
    #[arg(long, value_name = "TEXT", default_value = "issued by the command line")]
    name: String,
    /// What it may do [default: as its member, else member]
    #[arg(long, value_enum)]
    role: Option<TenantRole>,
    /// What it looks like
    #[arg(long, value_enum, default_value = "opaque")]
    kind: Kind,
    /// When it lapses, from now, such as 12h or 30d [default: never; a jwt needs one]
    #[arg(long, value_name = "SPAN", value_parser = humantime::parse_duration, required_if_eq("kind", "jwt"))]
    expires: Option<Duration>,
    /// A model it may use, exact or with *, within what its tenant may; may be given several times
    #[arg(long, value_name = "PATTERN", value_parser = Pattern::parse)]
    model: Vec<Pattern>,
    /// Its own limit: requests in any 60 s
    #[arg(long, value_name = "N")]
    rpm: Option<u32>,
    /// Its own limit: tokens in any 60 s
    #[arg(long, value_name = "N")]
    tpm: Option<u64>,
    /// Its own limit: requests in flight
    #[arg(long, value_name = "N")]
    concurrency: Option<u32>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// A signed JWT: verified without the database
    Jwt,
    /// `tw_…`: short
    Opaque,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum TenantRole {
    Owner,
    Admin,
    Member,
    Auditor,
}

impl From<TenantRole> for Role {
    fn from(role: TenantRole) -> Self {
        match role {
            TenantRole::Owner => Self::Owner,
            TenantRole::Admin => Self::Admin,
            TenantRole::Member => Self::Member,
            TenantRole::Auditor => Self::Auditor,
        }
    }
}

/// Issues, lists or revokes.
///
/// # Errors
/// When the settings are wrong, the database does not answer, or what is named does not exist.
pub fn run(global: &Global, args: &TokenArgs) -> anyhow::Result<ExitCode> {
    let settings = global.settings()?;
    runtime()?.block_on(async {
        install_crypto();
        let store = connect_ready(&settings).await?;
        match &args.command {
            TokenCommand::Issue(args) => issue(&settings, &store, args).await?,
            TokenCommand::List { tenant } => list(&store, tenant.as_deref()).await?,
            TokenCommand::Revoke { id } => revoke(&store, *id).await?,
            TokenCommand::RotateKey { overlap } => rotate_key(&settings, &store, *overlap).await?,
        }
        store.close().await;
        Ok(ExitCode::SUCCESS)
    })
}

async fn issue(settings: &Settings, store: &Store, args: &IssueArgs) -> anyhow::Result<()> {
    let new = new_token(store, args).await?;
    let identity = identity(settings, store).await?;
    let (token, text) = identity.issue(new).await?;
    tell!("issued {} ({}, {}); {}", token.id, token.role.as_str(), token.kind.as_str(), lapse(&token));
    say!("{}", text.expose())?;
    Ok(())
}

/// Identity beside a server, on the same store.
async fn identity(settings: &Settings, store: &Store) -> anyhow::Result<Identity> {
    let vault = Arc::new(keys::open_existing(store, settings).await?);
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(OsEntropy));
    let identity = Identity::try_new(parts::identity(settings), store.clone(), vault, clock, entropy)?;
    identity.start().await.context("the signing keys cannot be read")?;
    Ok(identity)
}

async fn rotate_key(settings: &Settings, store: &Store, overlap: Duration) -> anyhow::Result<()> {
    identity(settings, store)
        .await?
        .rotate_signing_key(overlap)
        .await
        .context("the key cannot be rotated")?;
    let until = SystemClock.now().plus(overlap);
    tell!("a new key signs from now on; JWTs signed before verify until {until}");
    Ok(())
}

async fn new_token(store: &Store, args: &IssueArgs) -> anyhow::Result<NewToken> {
    let tenant = match &args.tenant {
        Some(name) => Some(tenant_id(store, name).await?),
        None => None,
    };
    let member = match (&args.member, tenant) {
        (Some(subject), Some(tenant)) => Some(member(store, tenant, subject).await?),
        _ => None,
    };
    let role = match (args.role, &member) {
        _ if args.operator => Role::Operator,
        (Some(role), _) => role.into(),
        (None, Some(member)) => member.role,
        (None, None) => Role::Member,
    };
    Ok(NewToken {
        tenant,
        member: member.map(|member| member.id),
        name: args.name.clone(),
        form: match args.kind {
            Kind::Jwt => TokenForm::Jwt,
            Kind::Opaque => TokenForm::Opaque,
        },
        role,
        grants: (!args.model.is_empty()).then(|| Grants { allow: args.model.clone(), deny: Vec::new() }),
        limits: Limits { rpm: args.rpm, tpm: args.tpm, concurrency: args.concurrency },
        expires_at: args.expires.map(|span| SystemClock.now().plus(span)),
    })
}

async fn tenant_id(store: &Store, name: &str) -> anyhow::Result<TenantId> {
    let found = store.find_tenant_by_name(name).await?;
    Ok(found.with_context(|| format!("there is no tenant {name}"))?.id)
}

async fn member(store: &Store, tenant: TenantId, subject: &str) -> anyhow::Result<Member> {
    let found = store.find_member_by_subject(tenant, subject).await?;
    found.with_context(|| format!("the tenant has no member {subject}"))
}

async fn list(store: &Store, tenant: Option<&str>) -> anyhow::Result<()> {
    let tenant_id = match tenant {
        Some(name) => Some(tenant_id(store, name).await?),
        None => None,
    };
    let tenants = names::tenants(store).await?;
    let filter = AccessTokenFilter { tenant_id, member_id: None };
    let read = async |page| store.list_access_tokens(&filter, page).await;
    let mut table =
        Table::new(["token", "name", "kind", "role", "of tenant", "of member", "limits", "standing"]);
    for token in &every(read, |token| token.id.uuid()).await? {
        table.row([
            token.id.to_string(),
            token.name.clone(),
            token.kind.as_str().to_owned(),
            token.role.as_str().to_owned(),
            token.tenant_id.map(|id| names::of(&tenants, id)).unwrap_or_default(),
            token.member_id.map(|id| id.to_string()).unwrap_or_default(),
            limits(&token.limits),
            lapse(token),
        ]);
    }
    Ok(table.print()?)
}

/// Whether and until when it is taken, in words.
fn lapse(token: &AccessToken) -> String {
    let now = SystemClock.now();
    match (token.revoked_at, token.expires_at) {
        // The one use of a set-up token revokes it.
        (Some(at), _) if token.kind == AccessTokenKind::Setup => format!("used {}", minute(at)),
        (Some(at), _) => format!("revoked {}", minute(at)),
        (None, Some(at)) if at <= now => format!("lapsed {}", minute(at)),
        (None, Some(at)) => format!("lapses {}", minute(at)),
        (None, None) => "does not lapse".to_owned(),
    }
}

fn minute(at: Timestamp) -> String {
    at.to_utc().format("%Y-%m-%d %H:%M UTC").to_string()
}

async fn revoke(store: &Store, id: AccessTokenId) -> anyhow::Result<()> {
    let mut tx = store.begin().await?;
    let revoked = tx.revoke_access_token(id, SystemClock.now()).await?;
    let token = revoked.with_context(|| format!("there is no access token {id}"))?;
    tx.commit().await?;
    let since = token.revoked_at.map(minute).unwrap_or_default();
    tell!("{id} ({}) is revoked {since}", token.name);
    Ok(())
}
