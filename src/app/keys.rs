//! Opening the vault: the master key from outside, the data keys from the store.

use std::sync::Arc;

use anyhow::Context;

use super::{config::Settings, files};
use crate::{
    domain::clock::{Clock, SharedEntropy, SystemClock},
    store::{Store, StoreError, VaultKey},
    vault::{MasterKey, OsEntropy, SealedDataKey, Vault},
};

/// The first data key's number.
const FIRST: u32 = 1;

/// Opens every data key of the store, making the first one where there is none.
///
/// # Errors
/// When the store is away, or the master key is not the one that sealed the data keys.
pub async fn open_vault(
    store: &Store,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: SharedEntropy,
) -> anyhow::Result<Vault> {
    let mut keys = list(store).await?;
    if keys.is_empty() {
        add_first(store, master, clock, &entropy).await?;
        keys = list(store).await?;
    }
    let active = keys.iter().find(|key| key.active).context("no data key of the vault is active")?.id;
    let sealed: Vec<_> =
        keys.into_iter().map(|key| SealedDataKey { id: key.id, sealed: key.sealed }).collect();
    Ok(Vault::open(master, &sealed, active, entropy)?)
}

/// Opens the vault of a server that has started before; what a command beside it does.
///
/// # Errors
/// When there is no master key, or as [`open_vault`].
pub async fn open_existing(store: &Store, settings: &Settings) -> anyhow::Result<Vault> {
    let found = files::master_key(&settings.vault, &settings.data.dir, false, &OsEntropy)?;
    open_vault(store, &found.key, &SystemClock, Arc::new(OsEntropy)).await
}

async fn list(store: &Store) -> anyhow::Result<Vec<VaultKey>> {
    store.list_vault_keys().await.context("the data keys of the vault cannot be read")
}

/// Adds data key number one, unless another replica does so at the same moment.
async fn add_first(
    store: &Store,
    master: &MasterKey,
    clock: &dyn Clock,
    entropy: &SharedEntropy,
) -> anyhow::Result<()> {
    let made = Vault::new_data_key(FIRST, master, &**entropy)?;
    let key = VaultKey { id: made.id, sealed: made.sealed, active: true, created_at: clock.now() };
    let mut tx = store.begin().await?;
    let added = match tx.add_vault_key(&key).await {
        Ok(()) => tx.commit().await,
        other => other,
    };
    match added {
        Ok(()) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error).context("the first data key of the vault cannot be kept"),
    }
}
