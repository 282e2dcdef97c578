//! From a model name to what may serve it.

use std::sync::Arc;

use crate::{
    catalog::{Served, Snapshot},
    domain::principal::Principal,
    relay::Failure,
};

/// The model of exactly this name, if it is enabled and the caller may use it.
///
/// # Errors
/// [`Failure::Model`] alike for unknown, disabled and not granted, so that the answer does not
/// reveal what others have; [`Failure::NoRoute`] when nothing serves it.
pub(super) fn resolve(
    snapshot: &Snapshot,
    principal: &Principal,
    model: &str,
) -> Result<Arc<Served>, Failure> {
    let served = snapshot
        .model(model)
        .filter(|served| served.model.enabled && principal.allows(model))
        .ok_or_else(|| Failure::Model { model: model.to_owned() })?;
    if served.candidates.is_empty() {
        return Err(Failure::NoRoute { model: model.to_owned() });
    }
    Ok(Arc::clone(served))
}
