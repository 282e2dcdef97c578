//! What a caller may ask for.

use std::sync::Arc;

use crate::{catalog::Served, domain::principal::Principal, relay::Relay};

impl Relay {
    /// The models that the caller may use and that something serves, by name.
    #[must_use]
    pub fn models(&self, principal: &Principal) -> Vec<Arc<Served>> {
        let snapshot = self.parts.catalog.current();
        let mut models: Vec<_> = snapshot
            .models()
            .filter(|served| served.model.enabled && !served.candidates.is_empty())
            .filter(|served| principal.allows(&served.model.name))
            .map(Arc::clone)
            .collect();
        models.sort_unstable_by(|a, b| a.model.name.cmp(&b.model.name));
        models
    }
}
