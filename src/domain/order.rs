//! In which order the routes of a model are tried.

use crate::domain::{model::Route, provider::Tier};

/// Sorts by tier, then priority, then id (older first), so that the order is the same on every
/// replica.
pub fn order<T>(candidates: &mut [T], facts: impl Fn(&T) -> (Tier, &Route)) {
    candidates.sort_by(|a, b| {
        let (a, b) = (facts(a), facts(b));
        (a.0, a.1.priority, a.1.id).cmp(&(b.0, b.1.priority, b.1.id))
    });
}
