//! The floor's state and what keeps it current.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use moka::sync::Cache;

use crate::{
    domain::{
        clock::{SharedClock, SharedEntropy},
        grant::Grants,
        ids::{AccessTokenId, MemberId, TenantId},
        tenant::AccessToken,
    },
    identity::{
        AuthThrottle, Denied, IdentityConfig, IdentityError, TokenHash,
        claims::Subject,
        config::MIN_SECRET_BYTES,
        facts::{Bounds, Facts, Inquiry, Moment, Reachability},
        jwt::VerifyingKey,
        keys::{self, KeyRing},
        revoked::Revoked,
        verify::Seen,
    },
    store::{MemberAccess, Store, TenantAccess},
    vault::Vault,
};

/// Opaque texts that are known to be nobody's.
const UNKNOWN_ENTRIES: u64 = 10_000;

/// Verifies, issues and revokes access tokens. One for the process, shared by all workers.
pub struct Identity {
    pub(super) config: IdentityConfig,
    pub(super) store: Store,
    pub(super) vault: Arc<Vault>,
    pub(super) clock: SharedClock,
    pub(super) entropy: SharedEntropy,
    pub(super) throttle: AuthThrottle,
    pub(super) shared: Option<VerifyingKey>,
    pub(super) ring: ArcSwap<KeyRing>,
    pub(super) revoked: ArcSwap<Revoked>,
    pub(super) bounds: Bounds,
    epoch: AtomicU64,
    signatures: AtomicU64,
    reachability: Arc<Reachability>,
    /// Rings read because of an unknown `kid`, by the second: however many are made up, the store
    /// is asked once in a second.
    rings: Facts<i64, Arc<KeyRing>>,
    pub(super) seen: Cache<TokenHash, Arc<Seen>>,
    pub(super) unknown: Cache<TokenHash, Moment>,
    pub(super) tokens: Facts<TokenHash, Option<Arc<AccessToken>>>,
    pub(super) token_lines: Facts<AccessTokenId, Option<Arc<Grants>>>,
    pub(super) tenants: Facts<TenantId, Option<Arc<TenantAccess>>>,
    pub(super) members: Facts<(TenantId, Subject<MemberId>), Option<Arc<MemberAccess>>>,
}

/// What has been done so far, for metrics and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdentityCounts {
    /// Signatures verified.
    pub signatures: u64,
    /// Facts read from the store.
    pub reads: u64,
    /// Access tokens remembered.
    pub remembered: u64,
}

impl Identity {
    /// Sets the floor up; [`Identity::start`] makes it ready.
    ///
    /// # Errors
    /// [`IdentityError::ShortSecret`].
    pub fn try_new(
        config: IdentityConfig,
        store: Store,
        vault: Arc<Vault>,
        clock: SharedClock,
        entropy: SharedEntropy,
    ) -> Result<Self, IdentityError> {
        let secret = config.hs256_secret.as_ref();
        if secret.is_some_and(|secret| secret.expose().len() < MIN_SECRET_BYTES) {
            return Err(IdentityError::ShortSecret);
        }
        let reachability = Arc::new(Reachability::unknown());
        let (entries, bounds) = (config.cache_entries, Bounds::within(config.max_stale));
        let unforgiving = Bounds { max_stale: Duration::ZERO, ..bounds };
        Ok(Self {
            shared: secret.and_then(VerifyingKey::hs256),
            throttle: AuthThrottle::new(SharedClock::clone(&clock)),
            ring: ArcSwap::from_pointee(KeyRing::empty()),
            revoked: ArcSwap::from_pointee(Revoked::default()),
            epoch: AtomicU64::new(0),
            signatures: AtomicU64::new(0),
            rings: Facts::new(2, unforgiving, Arc::clone(&reachability)),
            seen: Cache::new(entries),
            unknown: Cache::new(UNKNOWN_ENTRIES),
            tokens: Facts::new(entries, bounds, Arc::clone(&reachability)),
            token_lines: Facts::new(entries, bounds, Arc::clone(&reachability)),
            tenants: Facts::new(entries / 10, bounds, Arc::clone(&reachability)),
            members: Facts::new(entries, bounds, Arc::clone(&reachability)),
            bounds,
            reachability,
            config,
            store,
            vault,
            clock,
            entropy,
        })
    }

    /// Makes ready: a signing key is there, revocations are loaded.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub async fn start(&self) -> Result<(), IdentityError> {
        self.ensure_signing_key().await?;
        self.refresh().await
    }

    /// Hears of a change to tenants, members, grants or access tokens: reads revocations and
    /// signing keys again, and has every remembered answer checked at its next use. Call it
    /// whenever the store's `access` version has risen, and again later when it fails.
    ///
    /// # Errors
    /// [`IdentityError`]; what was known stays in use.
    ///
    /// # Cancellation
    /// Safe: either the new state is in force or the old one.
    pub async fn refresh(&self) -> Result<(), IdentityError> {
        let known = self.revoked.load_full();
        let revoked = known.updated(&self.store, &self.config.issuer, self.clock.now()).await?;
        let ring = self.read_ring().await?;
        self.revoked.store(Arc::new(revoked));
        self.ring.store(Arc::new(ring));
        // Last, so that an answer of the new epoch is never given on the old state.
        self.epoch.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// The public keys of our issuer, for `/.well-known/jwks.json`.
    #[must_use]
    pub fn jwks(&self) -> serde_json::Value {
        self.ring.load().jwks(self.clock.now())
    }

    /// What has been done so far.
    #[must_use]
    pub fn counts(&self) -> IdentityCounts {
        IdentityCounts {
            signatures: self.signatures.load(Ordering::Relaxed),
            reads: self.reachability.reads(),
            remembered: self.seen.entry_count(),
        }
    }

    /// Makes our issuer's first key pair, unless there is one that signs.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub async fn ensure_signing_key(&self) -> Result<(), IdentityError> {
        if self.read_ring().await?.signer().is_none() {
            let pair = keys::generate(self.clock.now(), &self.vault, &*self.entropy)?;
            let mut tx = self.store.begin().await?;
            tx.lock_first_start().await?;
            // Another replica may have been first while we waited for the lock.
            if self.read_ring().await?.signer().is_none() {
                tx.add_signing_key(&pair).await?;
                tx.commit().await?;
            }
        }
        self.ring.store(Arc::new(self.read_ring().await?));
        Ok(())
    }

    /// Makes a new key pair that signs from now on. The old ones verify for `overlap` more: as
    /// long as the longest token they signed is to live.
    ///
    /// # Errors
    /// [`IdentityError`]; then nothing has changed.
    pub async fn rotate_signing_key(&self, overlap: Duration) -> Result<(), IdentityError> {
        let now = self.clock.now();
        let pair = keys::generate(now, &self.vault, &*self.entropy)?;
        let rows = self.store.list_signing_keys().await?;
        let mut tx = self.store.begin().await?;
        for row in rows.iter().filter(|row| row.retires_at.is_none()) {
            tx.retire_signing_key(&row.kid, now.plus(overlap)).await?;
        }
        tx.add_signing_key(&pair).await?;
        tx.remove_retired_signing_keys(now).await?;
        tx.commit().await?;
        self.refresh().await
    }

    pub(super) fn moment(&self) -> Moment {
        Moment { now: self.clock.now(), epoch: self.epoch.load(Ordering::Acquire) }
    }

    pub(super) fn counted<T>(&self, verify: impl FnOnce() -> T) -> T {
        self.signatures.fetch_add(1, Ordering::Relaxed);
        verify()
    }

    /// A ring that has `kid`, or the newest: another replica may have made the pair just now.
    pub(super) async fn ring_with(&self, kid: &str, at: Moment) -> Result<Arc<KeyRing>, Denied> {
        let ring = self.ring.load_full();
        if ring.find(kid, at.now).is_some() {
            return Ok(ring);
        }
        let read = || async {
            let rows = self.store.list_signing_keys().await?;
            Ok(KeyRing::open(&rows, &self.vault).map_or_else(
                |failure| {
                    tracing::error!(error = %failure, "signing keys cannot be opened, the known ones stay in use");
                    Arc::clone(&ring)
                },
                Arc::new,
            ))
        };
        let newest = self.rings.get(&at.now.unix_s(), &mut Inquiry::new(at), read).await?;
        if newest.find(kid, at.now).is_some() {
            self.ring.store(Arc::clone(&newest));
        }
        Ok(newest)
    }

    async fn read_ring(&self) -> Result<KeyRing, IdentityError> {
        KeyRing::open(&self.store.list_signing_keys().await?, &self.vault)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({:?})", self.counts())
    }
}
