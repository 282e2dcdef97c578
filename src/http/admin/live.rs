//! The live state of a provider's keys: what is counted, what is out and until when.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, http::Method, web};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    admission::{KeyLive, Pool, PoolKey},
    domain::{
        clock::Timestamp,
        ids::{KeyId, ModelId, ProviderId},
        key::{Key, KeyState},
    },
    http::admin::{
        Answer, Desk, operator,
        problem::Problem,
        resource::id_in_path,
        schema,
        surface::{Operation, Surface},
    },
    store::{KeyFilter, Page},
};

/// Keys of a pool that are read at a time.
const PIECE: u32 = 500;

pub(super) fn register(surface: &mut Surface) {
    let view = surface.schema::<PoolView>();
    let read = "Read the live state of a provider's keys".to_owned();
    surface.add(
        Operation::new(Method::GET, "/providers/{id}/live".to_owned(), "providers", read).gives(200, view),
        web::get().to(read_live),
    );
    let clear = "Lift every cooldown of a key".to_owned();
    surface.add(
        Operation::new(Method::POST, "/keys/{id}/clear-cooldown".to_owned(), "keys", clear).gives_nothing(),
        web::post().to(clear_cooldown),
    );
}

/// The pool of a provider as it is now.
#[derive(Serialize, ToSchema)]
#[schema(as = ProviderLive)]
pub struct PoolView {
    /// Whose.
    #[schema(value_type = String)]
    provider_id: ProviderId,
    /// Its keys.
    keys: Vec<KeyView>,
}

/// A key as it is now.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyLive)]
pub struct KeyView {
    /// Which.
    #[schema(value_type = String)]
    key_id: KeyId,
    /// Its name.
    label: String,
    /// Its durable state.
    #[schema(schema_with = schema::key_state)]
    state: KeyState,
    /// Requests counted in the last 60 s.
    rpm_used: u32,
    /// Tokens counted in the last 60 s.
    tpm_used: u64,
    /// Attempts in flight.
    in_flight: u32,
    /// When it was last used.
    #[schema(schema_with = schema::maybe_instant)]
    last_used_at: Option<Timestamp>,
    /// Every cooldown in force.
    cooldowns: Vec<CooldownView>,
}

/// Until when a key is out, and why.
#[derive(Serialize, ToSchema)]
#[schema(as = Cooldown)]
pub struct CooldownView {
    /// For which model; null: all.
    #[schema(value_type = Option<String>)]
    model_id: Option<ModelId>,
    /// Until when.
    #[schema(schema_with = schema::instant)]
    until: Timestamp,
    /// The class of the failure.
    reason: String,
}

async fn read_live(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let desk = Desk::of(&request)?;
    let provider_id = id_in_path(&request, "provider")?;
    let provider = desk.store.lookup_provider(provider_id).await?;
    provider.ok_or_else(|| Problem::missing("provider"))?;
    let keys = all_keys(desk, provider_id).await?;
    let live = desk.admission.inspect_pool(&pool(provider_id, &keys)).await;
    let shown = |key: Key| {
        let found = live.iter().find(|(id, _)| *id == key.id);
        KeyView::of(key, found.map(|(_, live)| live.clone()).unwrap_or_default())
    };
    let keys = keys.into_iter().map(shown).collect();
    Ok(HttpResponse::Ok().json(PoolView { provider_id, keys }))
}

async fn clear_cooldown(request: HttpRequest) -> Answer {
    operator(&request).await?;
    let desk = Desk::of(&request)?;
    let key = desk.store.lookup_key(id_in_path(&request, "key")?).await?;
    let key = key.ok_or_else(|| Problem::missing("key"))?;
    desk.admission.clear_keys(&pool(key.provider_id, std::slice::from_ref(&key)), |_, _| true).await;
    Ok(HttpResponse::NoContent().finish())
}

async fn all_keys(desk: &Desk, provider_id: ProviderId) -> Result<Vec<Key>, Problem> {
    let filter = KeyFilter { provider_id: Some(provider_id), tenant_id: None };
    let mut keys = Vec::new();
    let mut page = Page::first(PIECE);
    loop {
        let piece = desk.store.list_keys(&filter, page).await?;
        let Some(last) = piece.last() else { return Ok(keys) };
        page = Page::after(last.id.uuid(), PIECE);
        keys.extend(piece);
    }
}

/// The pool as admission knows it, disabled keys included: their counters are of interest too.
fn pool(provider: ProviderId, keys: &[Key]) -> Pool {
    let keys: Arc<[PoolKey]> = keys
        .iter()
        .map(|key| PoolKey { id: key.id, tenant: key.tenant_id, priority: key.priority, limits: key.limits })
        .collect();
    Pool { provider, version: 0, keys }
}

impl KeyView {
    fn of(key: Key, live: KeyLive) -> Self {
        let cooldown = |(model_id, until, reason)| CooldownView { model_id, until, reason };
        Self {
            key_id: key.id,
            label: key.label,
            state: key.state,
            rpm_used: live.rpm_used,
            tpm_used: live.tpm_used,
            in_flight: live.in_flight,
            last_used_at: live.last_used_at,
            cooldowns: live.cooldowns.into_iter().map(cooldown).collect(),
        }
    }
}
