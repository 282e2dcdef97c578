//! What is to be done, and doing it.

use super::{
    ApplyError, Step, Verdict,
    planner::{Planner, Tools},
    read::{documents, entries},
    source::Source,
};
use crate::store::Store;

/// What is to be done so that the store is as the files say.
#[derive(Debug)]
pub struct Plan {
    /// Every object that the files name, unchanged ones too, in an order in which they can be done.
    pub steps: Vec<Step>,
}

/// Reads files and compares them with the store. With `prune`, keys and routes go that a list of
/// the files does not have: the keys of a provider whose `keys` are listed, the routes of a provider
/// that has a list of them.
///
/// # Errors
/// [`ApplyError::Refused`] with everything that is wrong, or the store's.
pub async fn plan(tools: &Tools<'_>, files: &[Source], prune: bool) -> Result<Plan, ApplyError> {
    let documents = documents(files).map_err(ApplyError::Refused)?;
    let wanted = entries(&documents).map_err(ApplyError::Refused)?;
    let steps = Planner::new(tools, prune).plan(&wanted).await?;
    Ok(Plan { steps })
}

impl Plan {
    /// Whether the store is as the files say already.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.steps.iter().all(|step| step.verdict == Verdict::Unchanged)
    }

    /// Does all of it, or nothing.
    ///
    /// # Errors
    /// [`ApplyError::Overtaken`] when somebody else was faster, or the store's.
    pub async fn carry_out(&self, store: &Store) -> Result<(), ApplyError> {
        if self.is_done() {
            return Ok(());
        }
        let mut tx = store.begin().await?;
        // What goes may have a name that something else takes.
        let (going, staying): (Vec<&Step>, Vec<&Step>) =
            self.steps.iter().partition(|step| step.verdict == Verdict::Removed);
        for step in going.into_iter().chain(staying) {
            step.carry_out(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }
}
