//! What prepaid tenants can spend now: their balance in the store, less what this process has
//! charged and the store did not have when it was last asked.
//!
//! Every charge is counted here before it is journaled, and taken off again only by an answer of
//! the store to a question that was asked after the recorder had stored it. So no charge of this
//! process is ever missing from the sum; for a moment it may be in it twice.
//!
//! What others do shows with the next answer, within about `REFRESH_EVERY`: a top-up, and the
//! charges of other replicas once their recorders have stored them. Together with the holds of
//! requests in flight, which all replicas share, a tenant can be overdrawn by no more than what the
//! other replicas settle for it in that span. While the store is away the last balance counts, and
//! what this process charges goes on being taken from it.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::journal::{Position, Waiting};
use crate::{
    domain::{ids::TenantId, money::Nanos},
    store::{Store, StoreError},
};

/// How often the store is asked.
const REFRESH_EVERY: Duration = Duration::from_secs(1);
/// A tenant that asked for nothing in so many rounds is forgotten, unless it has charges that the
/// store does not have.
const ROUNDS: u32 = 60;
/// Tenants in one question.
const AT_ONCE: usize = 1_000;

/// The spendable money of this process's tenants.
#[derive(Debug)]
pub struct Funds {
    store: Store,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    accounts: HashMap<TenantId, Account>,
    /// Up to here the journal's charges are known to be stored.
    booked_to: Option<Position>,
}

#[derive(Debug, Default)]
struct Account {
    /// As the store last said.
    balance: Option<Nanos>,
    /// Charged by this process and not in `balance`.
    unseen: Nanos,
    /// The part of `unseen` that the store has by now: its next answer contains it.
    booked: Nanos,
    /// Rounds since somebody asked.
    idle: u32,
}

impl Funds {
    /// Funds of tenants whose charges `waiting` in the journal have yet to be stored.
    #[must_use]
    pub fn new(store: Store, waiting: &BTreeMap<TenantId, Waiting>) -> Self {
        let account = |waiting: &Waiting| Account { unseen: waiting.charges, ..Account::default() };
        let accounts = waiting.iter().map(|(tenant, waiting)| (*tenant, account(waiting))).collect();
        Self { store, book: Mutex::new(Book { accounts, booked_to: None }) }
    }

    /// What a tenant could spend if nothing were held. Asks the store only for a tenant that was
    /// not seen lately.
    ///
    /// # Errors
    /// [`StoreError`] when that is so and the store is away.
    pub async fn spendable(&self, tenant: TenantId) -> Result<Nanos, StoreError> {
        let booked = {
            let mut book = self.book.lock();
            let account = book.accounts.entry(tenant).or_default();
            account.idle = 0;
            match account.balance {
                Some(balance) => return Ok(balance.minus(account.unseen)),
                None => account.booked,
            }
        };
        let balance = self.store.lookup_balance(tenant).await?;
        let mut book = self.book.lock();
        let account = book.accounts.entry(tenant).or_default();
        // Somebody else may have been answered meanwhile, and later than we were.
        let balance = account.balance.unwrap_or_else(|| account.see(balance, booked));
        Ok(balance.minus(account.unseen))
    }

    /// A tenant's balance was changed by somebody: the next question goes to the store.
    pub fn changed(&self, tenant: TenantId) {
        if let Some(account) = self.book.lock().accounts.get_mut(&tenant) {
            account.balance = None;
        }
    }

    /// A request is about to be journaled as ended at this charge.
    pub fn charged(&self, tenant: TenantId, charge: Nanos) {
        if charge != Nanos::ZERO {
            let mut book = self.book.lock();
            let account = book.accounts.entry(tenant).or_default();
            account.unseen = account.unseen.plus(charge);
        }
    }

    /// Where a recorder of this process goes on: what is before has been told by [`Self::booked`].
    #[must_use]
    pub(super) fn booked_to(&self) -> Option<Position> {
        self.book.lock().booked_to
    }

    /// The store has these charges, which stand in the journal before `to`.
    pub(super) fn booked(&self, charges: impl Iterator<Item = (TenantId, Nanos)>, to: Position) {
        let mut book = self.book.lock();
        for (tenant, charge) in charges.filter(|(_, charge)| *charge != Nanos::ZERO) {
            let account = book.accounts.entry(tenant).or_default();
            account.booked = account.booked.plus(charge);
        }
        book.booked_to = Some(to);
    }

    /// Asks the store again and again, until `shutdown`. One per process.
    ///
    /// # Cancellation
    /// May be dropped at any point.
    pub async fn refresh(&self, shutdown: CancellationToken) {
        let mut rounds = interval(REFRESH_EVERY);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_away = false;
        while shutdown.run_until_cancelled(rounds.tick()).await.is_some() {
            match self.round().await {
                Ok(()) => is_away = false,
                Err(error) if !is_away => {
                    tracing::warn!(%error, "balances cannot be read; the last ones count");
                    is_away = true;
                }
                Err(_) => {}
            }
        }
    }

    async fn round(&self) -> Result<(), StoreError> {
        let due = self.due();
        for due in due.chunks(AT_ONCE) {
            let tenants: Vec<TenantId> = due.iter().map(|(tenant, _)| *tenant).collect();
            let balances: HashMap<_, _> = self.store.lookup_balances(&tenants).await?.into_iter().collect();
            let mut book = self.book.lock();
            for (tenant, booked) in due {
                if let Some(account) = book.accounts.get_mut(tenant) {
                    account.see(balances.get(tenant).copied().unwrap_or_default(), *booked);
                }
            }
        }
        Ok(())
    }

    /// Tenants to ask for, each with what the answer contains for certain; forgets the idle ones.
    fn due(&self) -> Vec<(TenantId, Nanos)> {
        let mut book = self.book.lock();
        book.accounts.retain(|_, account| {
            account.idle += 1;
            account.idle <= ROUNDS || account.unseen != account.booked
        });
        let known = book.accounts.iter().filter(|(_, account)| account.balance.is_some());
        known.map(|(tenant, account)| (*tenant, account.booked)).collect()
    }
}

impl Account {
    /// Takes over an answer that contains `booked`.
    fn see(&mut self, balance: Nanos, booked: Nanos) -> Nanos {
        self.unseen = self.unseen.minus(booked);
        self.booked = self.booked.minus(booked);
        self.balance = Some(balance);
        balance
    }
}
